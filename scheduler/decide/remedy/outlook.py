"""Whether a pending pod can start later or never, what is closest, and who holds it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.decide.explain import Outcome, Refusal
from scheduler.decide.remedy.rejected import RejectedPod
from scheduler.decide.remedy.search import Remedy, remedies
from scheduler.framework.budget import SearchBudget
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.quantity import format_value
from scheduler.model.reasons.reason import IMPOSSIBLE
from scheduler.model.reasons.reason_code import RequeueCause
from scheduler.plugins import REASON_CODES
from scheduler.state.cache.cluster import Cluster
from scheduler.state.parts import Parts

#: The holders that are named; ``others`` counts the rest.
HOLDERS_MAX: Final = 8
CAUSES_MAX: Final = 2
_OF_THE_POD: Final = frozenset((RequeueCause.POD, RequeueCause.ADMISSION))
#: What a user or an administrator does.
_CHANGES: Final = _OF_THE_POD | {RequeueCause.NODE}
#: What does not lift a final rejection.
_ENDS: Final = frozenset((RequeueCause.FREED, RequeueCause.DEVICES))


class CanStart(enum.Enum):
    """When a pending pod can start, on the present nodes."""

    NOW = "now"
    LATER = "later"
    AFTER_CHANGE = "afterChange"
    NEVER = "never"


class Holder(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A pod that holds what the pending pod needs; ``since`` is a timestamp."""

    namespace: str
    pod: str
    holds: str
    since: str = ""


class Closest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The node that lacks the least; ``text`` is what it lacks.

    ``elsewhere`` counts holders in namespaces that the reader may not read.
    """

    node: str
    text: str
    holders: tuple[Holder, ...] = ()
    elsewhere: int = 0
    others: int = 0


class Searched(msgspec.Struct, frozen=True):
    """A search that ended at its step limit: it did ``parts`` of the nodes and edits ``of`` it."""

    parts: int
    of: int


class Outlook(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a pending pod can expect; ``text`` explains ``can_start`` in one clause.

    ``searched`` is absent for a complete search.
    """

    can_start: CanStart
    text: str = ""
    closest: Closest | None = None
    remedies: tuple[Remedy, ...] = ()
    searched: Searched | None = None


def outlook(
    cluster: Cluster, pod: Pod, pipeline: Pipeline, outcome: Outcome, work: SearchBudget
) -> Parts[Outlook]:
    """The outlook of a pod by a decision that was just made."""
    if outcome.is_placed:
        return Outlook(can_start=CanStart.NOW, text=f"on node {outcome.node}")
    rejected = RejectedPod(cluster, pod, outcome.refusals, work)
    can_start, text = _can_start(rejected, outcome)
    closest = _closest(rejected)
    work.spend(len(outcome.refusals))
    yield len(outcome.refusals)
    if pod.group and cluster.gangs.of(pod) is not None:  # no change of one member helps all
        return Outlook(can_start=can_start, text=text, closest=closest)
    found = yield from remedies(cluster, rejected, pipeline)
    return Outlook(
        can_start=can_start,
        text=text,
        closest=closest,
        remedies=found,
        searched=None if work.is_complete else Searched(work.done, work.total),
    )


def _can_start(rejected: RejectedPod, outcome: Outcome) -> tuple[CanStart, str]:
    _, is_impossible, why = outcome.message.partition(IMPOSSIBLE)
    if is_impossible:
        return CanStart.NEVER, why.removesuffix(".")
    if outcome.preemption is not None and outcome.preemption.node and not outcome.preemption.barred:
        return CanStart.LATER, f"when pods on node {outcome.preemption.node} have ended"
    has_claims = bool(rejected.pod.resource_claims)
    ignored = _CHANGES if has_claims else _CHANGES | {RequeueCause.RESOURCE_DEVICES}
    refusals = rejected.nodes.values()
    later = [causes for one in refusals if (causes := _lifted_by(one, ignored))]
    if later and all(RequeueCause.FREED in causes for causes in later):
        return CanStart.LATER, f"when pods on {len(later)} node{'s' * (len(later) > 1)} end"
    if later:
        every = frozenset().union(*later)
        shown = [cause.value for cause in RequeueCause if cause in every][:CAUSES_MAX]
        return CanStart.LATER, f"after {'; or '.join(shown)}"
    codes = {one.code for one in outcome.refusals}
    by_node_change = any(RequeueCause.NODE in REASON_CODES[code].lifted_by for code in codes)
    by_pod_change = any(_OF_THE_POD & set(REASON_CODES[code].lifted_by) for code in codes)
    words = ["the pod has to change"] * by_pod_change
    words += ["a node has to be added or changed"] * by_node_change
    return CanStart.AFTER_CHANGE, " or ".join(words)


def _lifted_by(
    refusals: Sequence[Refusal], ignored: frozenset[RequeueCause]
) -> frozenset[RequeueCause]:
    """The events that lift all refusals of a node; empty if one of them needs a change."""
    found: set[RequeueCause] = set()
    for one in refusals:
        causes = set(REASON_CODES[one.code].lifted_by) - ignored
        if one.is_final:
            causes -= _ENDS
        if not causes:
            return frozenset()
        found |= causes
    return frozenset(found)


def _closest(rejected: RejectedPod) -> Closest | None:
    """The node that lacks only resources, and the smallest part of them; else the map's node."""
    ranked = [
        (any(one.is_final for one in there), max(_missing(one) for one in there), name)
        for name, there in rejected.nodes.items()
        if name and all(one.code == "INSUFFICIENT" for one in there)
    ]
    if ranked:
        name = min(ranked)[2]
    else:
        has_map = rejected.pod.map_text
        mapped = (one.node for one in rejected.refusals if has_map and one.code != "NOT_IN_MAP")
        name = next((one for one in mapped if one), "")
    if not name:
        return None
    there = rejected.nodes[name]
    resources = {one.resource for one in there if one.resource}
    holders = _holders(rejected.view, name, resources)
    return Closest(
        node=name,
        text=", ".join(map(_lack, there)),
        holders=tuple(holders[:HOLDERS_MAX]),
        others=max(0, len(holders) - HOLDERS_MAX),
    )


def _missing(refusal: Refusal) -> float:
    """The part of the need that is not free, from 0 to 1."""
    return 1 - max(refusal.have, 0) / refusal.need if refusal.need else 1.0


def _lack(refusal: Refusal) -> str:
    if not refusal.resource:
        return refusal.text
    have = format_value(refusal.resource, max(refusal.have, 0))
    need = format_value(refusal.resource, refusal.need)
    return f"{have} of {need} {refusal.resource} free"


def _holders(view: View, name: str, resources: set[str]) -> list[Holder]:
    """The pods on a node that hold the resources, or any GPUs; the largest first."""
    node_info = view.at(name)
    if node_info is None:
        return []
    has_gpus = not resources or any(map(well_known.is_gpu_device, resources))
    found: list[tuple[int, str, Holder]] = []
    for pod, _ in node_info.pods.values():
        shared = node_info.is_dynamic and has_gpus
        wanted = resources | pod.gpu_requests.keys() if shared or not resources else resources
        held = {one: pod.requests[one] for one in sorted(wanted) if pod.requests.get(one)}
        devices = pod.annotations.get(well_known.DEVICES, "") if has_gpus else ""
        if not held and not devices:
            continue
        amounts = ", ".join(f"{format_value(one, n)} {one}" for one, n in held.items())
        holder = Holder(
            namespace=pod.namespace,
            pod=pod.name,
            holds=amounts or devices,
            since=pod.started or pod.created,
        )
        found.append((-max(held.values(), default=0), pod.key, holder))
    return [holder for _, _, holder in sorted(found, key=lambda one: one[:2])]
