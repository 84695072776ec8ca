"""Nodes in racks and blocks, and requests for these levels."""

from __future__ import annotations

from scheduler.framework.pipeline import Pipeline
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.plugins import default_pipeline
from tests.builders import node

BLOCK, RACK = "example.com/block", "example.com/rack"
#: The levels of the configuration in these tests.
LEVELS: Pipeline = default_pipeline(Settings(maps_allow="all", topology_levels=(BLOCK, RACK)))


def rack(name: str, *gpus: int, block: str = "b1") -> list[Node]:
    """Nodes of a rack with so many GPUs each."""
    labels = {BLOCK: block, RACK: name}
    every = enumerate(gpus, 1)
    return [node(f"{block}-{name}-{at}", gpus=count, labels=labels) for at, count in every]


def required(key: str) -> dict[str, str]:
    """The annotation of pods that stay within one domain."""
    return {well_known.TOPOLOGY_REQUIRED: key}


def preferred(key: str) -> dict[str, str]:
    """The annotation of pods that use as few domains as possible."""
    return {well_known.TOPOLOGY_PREFERRED: key}
