"""The expert templates as data: what each mesh axis of one splits. ``docs/templates.md`` explains each.

A template has one part for each mesh axis, in the order of the axes; a mesh of more axes gives the first part
all it has left. A new template is a line in ``TEMPLATES``, a new kind of part a ``Part``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from .role import Role


class Storage(Enum):
    """How arguments that outlive a step lie along an axis.

    Attributes:
        WHOLE: on every device.
        AS_USED: split as the operations that use them want them.
        SPLIT: split along any dim that the axis divides, whatever the operations want.
    """

    WHOLE = "whole"
    AS_USED = "as used"
    SPLIT = "split"


@dataclass(frozen=True)
class Part:
    """What one axis does.

    Attributes:
        uses: roles that the axis splits in operations; where an operation has several, those of the first
            entry come first.
        parameters: how parameters lie.
        optimizer: how other state lies.
        is_loose: whether the order of ``uses`` holds only where a parameter is applied that makes features of
            features; elsewhere any of them will do, and a smaller parameter may lie whole.
    """

    uses: tuple[tuple[Role, ...], ...]
    parameters: Storage
    optimizer: Storage
    is_loose: bool = False


_DATA = Part(((Role.BATCH,),), Storage.WHOLE, Storage.WHOLE)
_ZERO = Part(((Role.BATCH,),), Storage.WHOLE, Storage.SPLIT)
_FSDP = Part(((Role.BATCH,),), Storage.SPLIT, Storage.SPLIT)
_TENSOR = Part(((Role.INNER,),), Storage.AS_USED, Storage.AS_USED)
_TENSOR_SEQUENCE = Part(((Role.INNER,), (Role.SEQUENCE,)), Storage.AS_USED, Storage.AS_USED)
_SEQUENCE = Part(((Role.SEQUENCE,),), Storage.WHOLE, Storage.WHOLE)
_EXPERT = Part(((Role.EXPERT,), (Role.BATCH,)), Storage.AS_USED, Storage.AS_USED, is_loose=True)
_FEATURES = Part(((Role.INNER, Role.STREAM),), Storage.SPLIT, Storage.SPLIT)
_STREAM_OR_BATCH = Part(((Role.STREAM,), (Role.BATCH,)), Storage.SPLIT, Storage.SPLIT)
_INNER_OR_BATCH = Part(((Role.INNER,), (Role.BATCH,)), Storage.SPLIT, Storage.SPLIT)


@dataclass(frozen=True)
class Template:
    """An expert's recipe.

    Attributes:
        name: as users write it.
        parts: what each axis does.
    """

    name: str
    parts: tuple[Part, ...]


_PARTS: Mapping[str, tuple[Part, ...]] = {
    "data": (_DATA,),
    "zero": (_ZERO,),
    "fsdp": (_FSDP,),
    "tensor": (_TENSOR,),
    "tensor+sequence": (_TENSOR_SEQUENCE,),
    "sequence": (_SEQUENCE,),
    "expert": (_EXPERT,),
    "data+fsdp": (_DATA, _FSDP),
    "data+tensor": (_DATA, _TENSOR),
    "data+tensor+sequence": (_DATA, _TENSOR_SEQUENCE),
    "data+sequence": (_DATA, _SEQUENCE),
    "data+expert": (_DATA, _EXPERT),
    "zero+tensor": (_ZERO, _TENSOR),
    "zero+tensor+sequence": (_ZERO, _TENSOR_SEQUENCE),
    "fsdp+tensor": (_FSDP, _TENSOR),
    "fsdp+tensor+sequence": (_FSDP, _TENSOR_SEQUENCE),
    "fsdp+sequence": (_FSDP, _SEQUENCE),
    "fsdp+expert": (_FSDP, _EXPERT),
    "expert+tensor": (_EXPERT, _TENSOR),
    "2d": (_FSDP, _FEATURES),
    "2.5d": (_DATA, _FSDP, _FEATURES),
    "3d": (_FSDP, _STREAM_OR_BATCH, _INNER_OR_BATCH),
    "data+expert+tensor": (_DATA, _EXPERT, _TENSOR),
    "fsdp+expert+tensor": (_FSDP, _EXPERT, _TENSOR),
}

TEMPLATES: Mapping[str, Template] = {name: Template(name, parts) for name, parts in _PARTS.items()}
