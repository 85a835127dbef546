"""Factor rules: how the dims of an operation's operands and results hang together."""

from .factor import FactorRule
from .registry import RuleBook

__all__ = ["FactorRule", "RuleBook"]
