"""Device ids derived from the device's place; they survive restarts and repartitioning."""

from __future__ import annotations

import uuid
from typing import Final

#: The seed operator's namespace: all bits are zero.
_NIL: Final = uuid.UUID(int=0)


def gpu_id(node: str, index: int) -> str:
    """The id of a GPU: constant, and equal to the seed operator's.

    >>> gpu_id("node1", 0)
    'GPU-9c371748-0caa-5ed1-a957-7da694d693b6'
    """
    return f"GPU-{uuid.uuid5(_NIL, f'{node}-{index}')}"


def mig_id(node: str, index: int, profile: str, position: int) -> str:
    """The id of a MIG instance: equal whenever the same instance is created again."""
    return f"MIG-{uuid.uuid5(_NIL, f'{node}-{index}-{profile}-{position}')}"
