"""The kind ``high_cardinality``: as ``core``, on so many nodes that the index has many classes and
buckets.

kube-scheduler examines every node of a cluster with fewer than 100.
"""

from __future__ import annotations

from typing import Final

from tests.differential.generate import core
from tests.differential.sequence import Sequence

KIND: Final = "wide"
_NODES: Final = (30, 45, 60, 80, 95)
_STEPS: Final = (50, 80)


def sequence(seed: int) -> Sequence:
    """The sequence of a seed."""
    return core.drawn(KIND, seed, _NODES, _STEPS)
