"""The devices of a node in random histories: whole ones, shares of two, or parts of a card."""

from __future__ import annotations

from typing import Any

from scheduler.model.dra.resource_slice import ResourceSlice
from tests.dra import device_json, resource_slice

SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}


def _part(name: str, *slices: int) -> dict[str, Any]:
    counters = {f"slice-{one}": {"value": "1"} for one in slices}
    return device_json(name, consumesCounters=[{"counterSet": "card", "counters": counters}])


def published(node_name: str, kind: str, generation: int = 1) -> list[ResourceSlice]:
    """The slices of one node: ``whole``, ``shares`` or ``parts``."""
    if kind == "whole":
        return [resource_slice(node_name, "a", "b", "c", generation=generation)]
    if kind == "shares":
        some = [device_json(name, **SHARED) for name in "ab"]
        return [resource_slice(node_name, *some, generation=generation)]
    counters = {f"slice-{one}": {"value": "1"} for one in range(3)}
    card = [{"name": "card", "counters": counters}]
    parts = [_part("all", 0, 1, 2), _part("low", 0, 1), *(_part(f"p{n}", n) for n in range(3))]
    return [
        resource_slice(
            node_name,
            name=f"{node_name}-c",
            slices=2,
            generation=generation,
            nodeName=node_name,
            sharedCounters=card,
        ),
        resource_slice(node_name, *parts, name=f"{node_name}-d", slices=2, generation=generation),
    ]
