"""The generators by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.differential.generate import claims, core, preemption, sources, volumes, wide
from tests.differential.sequence import Sequence

KINDS: Final[dict[str, Callable[[int], Sequence]]] = {
    claims.KIND: claims.sequence,
    core.KIND: core.sequence,
    preemption.KIND: preemption.sequence,
    sources.KIND: sources.sequence,
    volumes.KIND: volumes.sequence,
    wide.KIND: wide.sequence,
}
