"""The allocation of a claim from the devices that a search has chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from scheduler.model.dra.allocation import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocatedConfig,
    Allocation,
    DeviceResult,
)
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.selector import Requirement, Term
from scheduler.plugins.dynamic_resources.allocation.requests import Alternative, Candidate

NODE_NAME: Final = "metadata.name"


class Chosen(msgspec.Struct, frozen=True):
    """A device that a search has taken for a request.

    ``has_counters`` where it took the device's counters, which another share may have already.
    """

    asked: Alternative
    candidate: Candidate
    consumed: dict[str, int]
    has_counters: bool


def allocation_of(
    claim: ResourceClaim,
    selected: Sequence[Alternative],
    chosen: Sequence[Chosen],
    node_name: str,
) -> Allocation:
    """The allocation of a claim: ``selected`` has the alternative of each request."""
    return Allocation(
        results=tuple(map(_result, chosen)),
        config=tuple(_config(claim, selected)),
        terms=_terms(chosen, node_name),
    )


def _result(one: Chosen) -> DeviceResult:
    device, asked = one.candidate.device, one.asked
    return DeviceResult(
        request=asked.name,
        driver=device.driver,
        pool=device.pool,
        device=device.name,
        admin_access=asked.exact.admin_access,
        tolerations=asked.exact.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        is_shared=device.allow_multiple,
        consumed=one.consumed,
        skip_node_operations=one.candidate.slice.skip_node_operations,
    )


def _config(claim: ResourceClaim, selected: Sequence[Alternative]) -> Iterable[AllocatedConfig]:
    """The configuration of each class once, then that of the claim for what was allocated."""
    by_class: dict[str, list[Alternative]] = {}
    for asked in selected:
        by_class.setdefault(asked.device_class.name, []).append(asked)
    for some in by_class.values():
        names = [asked.name for asked in some]
        for config in some[0].device_class.config:
            yield AllocatedConfig(FROM_CLASS, config, _requests(names, selected))
    for one in claim.config:
        if not one.requests or any(_is_named(asked, one.requests) for asked in selected):
            requests = _requests(one.requests, selected)
            yield AllocatedConfig(FROM_CLAIM, one.config, requests)


def _requests(names: Sequence[str], selected: Sequence[Alternative]) -> tuple[str, ...]:
    """The names of requests; none where they are all that there are."""
    return () if all(_is_named(asked, names) for asked in selected) else tuple(names)


def _is_named(asked: Alternative, names: Sequence[str]) -> bool:
    return asked.request.name in names or asked.name in names


def _terms(chosen: Sequence[Chosen], node_name: str) -> tuple[Term, ...] | None:
    """The nodes that can use all devices: this one, or one term that all of their terms form."""
    expressions: list[Requirement] = []
    fields: list[Requirement] = []
    for one in chosen:
        device = one.candidate.device
        source = one.candidate.slice
        nodes = device.nodes if source.per_device_nodes else source.nodes
        if nodes.node_name or device.binds_to_node:
            return (Term(match_fields=(Requirement(NODE_NAME, "In", (node_name,)),)),)
        for term in (nodes.terms or ())[:1]:
            _add(expressions, term.match_expressions)
            _add(fields, term.match_fields)
    if not expressions and not fields:
        return None
    return (Term(tuple(expressions), tuple(fields)),)


def _add(known: list[Requirement], more: Iterable[Requirement]) -> None:
    for one in more:
        if not any(_is_same(one, other) for other in known):
            known.append(one)


def _is_same(one: Requirement, other: Requirement) -> bool:
    values = (set(one.values), set(other.values))
    return (one.key, one.operator) == (other.key, other.operator) and values[0] == values[1]
