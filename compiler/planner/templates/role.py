"""What a dim of a program can be for."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """What a factor is for.

    Attributes:
        BATCH: examples: a dim of inputs that all activations carry and parameters do not.
        SEQUENCE: positions: passed through wherever a parameter is applied, and no batch.
        INNER: features between a pair of parameters: hidden units, heads, channels, a vocabulary.
        STREAM: the features before and after such a pair: the residual stream.
        EXPERT: what numbers whole sets of parameters that are applied side by side.
        OTHER: a dim of parameters that has no other role.
        FREE: a dim of neither parameters nor any role: a slot of an expert, a chosen one of k.
    """

    BATCH = "batch"
    SEQUENCE = "sequence"
    INNER = "inner features"
    STREAM = "stream features"
    EXPERT = "experts"
    OTHER = "other"
    FREE = "free"
