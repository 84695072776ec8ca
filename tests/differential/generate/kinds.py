"""The generators by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.differential.generate import core, preemption, volumes, wide
from tests.differential.sequence import Sequence

KINDS: Final[dict[str, Callable[[int], Sequence]]] = {
    core.KIND: core.sequence,
    preemption.KIND: preemption.sequence,
    volumes.KIND: volumes.sequence,
    wide.KIND: wide.sequence,
}
