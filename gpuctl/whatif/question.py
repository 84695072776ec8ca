"""Answers the question: the manifest on the state as it is, and on the state after the change.

The simulator decides both, from the same state. The change happens in the order in which an
administrator makes it: nodes are added, all nodes to be emptied are cordoned, their pods are
evicted node by node, and the nodes with another MIG layout come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import metadata

import msgspec

from gpuctl.device_words import counted
from gpuctl.input_error import InputError
from gpuctl.simulate.apiserver_defaults import Priorities
from gpuctl.simulate.engine import Simulator
from gpuctl.simulate.input import add_objects, create, not_created
from gpuctl.simulate.result import Verdict
from gpuctl.whatif.change import Change
from gpuctl.whatif.controllers import Controllers
from gpuctl.whatif.eviction import Evictions, cordoned, update_node
from gpuctl.whatif.live_simulator import settle, simulator_of
from gpuctl.whatif.live_state import LiveState
from gpuctl.whatif.manifest import Manifest
from gpuctl.whatif.mig_layouts import changed
from gpuctl.whatif.node_shapes import NewNode, new_nodes, no_node
from gpuctl.whatif.result import Added, Move, PodResult, Situation, WhatIf
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.capacity.node_devices import devices_of
from scheduler.state.capacity.summary import CapacitySummary, ModelCapacity

OnPod = Callable[[int], None]
OnUnread = Callable[[Iterable[Pod]], None]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The change on the nodes of this cluster; ``layouts`` are nodes with another MIG layout."""

    change: Change
    added: list[NewNode]
    layouts: dict[str, Node]


def plan_of(live: LiveState, change: Change) -> Plan:
    """The change; InputError if it names a node, a shape or a layout that does not exist."""
    names = {node.name for node in live.state.nodes}
    for option, wanted in (
        ("--drain", change.drained),
        ("--layout", [one.node_name for one in change.layouts]),
    ):
        for name in wanted:
            if name not in names:
                raise InputError(f"{option} {name}: {no_node(live.state, name)}")
    return Plan(
        change=change,
        added=new_nodes(live.state, change.added),
        layouts=changed(live.state.nodes, change.layouts),
    )


def answer(
    live: LiveState, manifest: Manifest, plan: Plan, on_pod: OnPod, on_unread: OnUnread
) -> WhatIf:
    """Decide both situations; ``on_unread`` gets the preempted pods of unknown controllers."""
    simulator = simulator_of(live)
    controllers = Controllers(simulator, live)
    now = _situation(simulator, live, manifest, controllers, None, on_pod)
    on_unread(controllers.unread.values())
    notes = dict.fromkeys((*live.notes, *manifest.notes, *_missing(simulator, controllers)))
    if not plan.change:
        return _whatif(live, now, all_start=now.starts == now.asked, notes=tuple(notes))
    simulator = simulator_of(live)
    controllers = Controllers(simulator, live)
    evictions, failed = _apply(simulator, live, plan, controllers)
    after = _situation(simulator, live, manifest, controllers, evictions, on_pod)
    on_unread(controllers.unread.values())
    moves = evictions.moves()
    all_start = after.starts == after.asked and not failed and all(one.node for one in moves)
    return _whatif(
        live,
        now,
        all_start=all_start,
        notes=tuple(notes | dict.fromkeys(_missing(simulator, controllers))),
        change=after,
        added=tuple(Added(node=one.node.name, like=one.like) for one in plan.added),
        moves=moves,
        failed=tuple(failed),
    )


def _whatif(live: LiveState, now: Situation, *, all_start: bool, **more: object) -> WhatIf:
    base = WhatIf(
        source=live.source,
        time=live.time,
        program=f"gpu-scheduler {metadata.version('gpu-scheduler')}",
        all_start=all_start,
        now=now,
    )
    return msgspec.structs.replace(base, **more)


def _missing(simulator: Simulator, controllers: Controllers) -> list[str]:
    found = []
    if unread := controllers.unread.values():
        found.append(
            f"{counted(len(unread), 'preempted pod')} not decided again: you may not read them or"
            f" their owners, such as {min(pod.key for pod in unread)}"
        )
    if claims := simulator.unknown_claims:
        found.append(
            f"{len(claims)} PersistentVolumeClaims do not exist yet and restrict no node, such as"
            f" {min(claims)}"
        )
    if templates := simulator.claims.missing:
        found.append(
            f"{len(templates)} ResourceClaimTemplates do not exist, so pods wait for their claims,"
            f" such as {min(templates)}"
        )
    return found


# --- the change ----------------------------------------------------------------------------------


def _apply(
    simulator: Simulator, live: LiveState, plan: Plan, controllers: Controllers
) -> tuple[Evictions, list[str]]:
    """Change the nodes and move their pods; returns what could not be done, one line each."""
    for new in plan.added:
        simulator.add_node(new.node, live.now)
        for item in new.dra:
            simulator.add_dra_object(item)
        for stored in new.storage:
            simulator.add_event(ev.StorageUpdated(stored))
    _settle(simulator, controllers)
    before = {node.name: node for node in live.state.nodes}
    for name in plan.change.emptied:
        update_node(simulator, cordoned(before[name]))
    evictions = Evictions(simulator, live, controllers)
    failed = [line for name in plan.change.drained for line in _drain(evictions, name)]
    _settle(simulator, controllers)
    for layout in plan.change.layouts:
        name = layout.node_name
        stay = evictions.empty(name, _holds_gpus)
        if stay:
            failed.append(f"the layout of {name} stays: {_named(stay)} cannot leave it")
        update_node(simulator, before[name] if stay else plan.layouts[name])
        _settle(simulator, controllers)
    return evictions, failed


def _settle(simulator: Simulator, controllers: Controllers) -> None:
    """Decide until neither waiting nor preempted pods can be placed."""
    settle(simulator)
    controllers.recreate_preempted()
    settle(simulator)


def _drain(evictions: Evictions, name: str) -> list[str]:
    stay = evictions.empty(name)
    return [f"{name} is not drained: {_named(stay)} cannot leave it"] if stay else []


def _named(stay: list[Move]) -> str:
    first = f"{stay[0].namespace}/{stay[0].pod}"
    return first if len(stay) == 1 else f"{first} and {len(stay) - 1} more"


def _holds_gpus(pod: Pod) -> bool:
    """Whether the pod uses GPUs, which mig-manager needs idle."""
    return bool(pod.gpu_requests or pod.resource_claims or pod.map_text is not None)


# --- one situation -------------------------------------------------------------------------------


def _situation(
    simulator: Simulator,
    live: LiveState,
    manifest: Manifest,
    controllers: Controllers,
    evictions: Evictions | None,
    on_pod: OnPod,
) -> Situation:
    """Create the manifest's objects and pods, and count."""
    before = set(simulator.verdicts)
    add_objects(simulator, manifest.known, live.namespace)
    classes = [one for one in live.documents if one.kind == "PriorityClass"]
    priorities = Priorities([*classes, *manifest.known["PriorityClass"]])
    late = create(simulator, manifest.planned, priorities, live.namespace, on_pod)
    controllers.recreate_preempted()
    verdicts = simulator.verdicts
    # A preempted pod of the cluster has a verdict from then on.
    known = before.union((pod.uid for pod in live.state.pods), controllers.uids)
    own = [verdict for uid, verdict in verdicts.items() if uid not in known]
    pods = [_as_result(one) for one in (*own, *(not_created(pod, live.namespace) for pod in late))]
    moved = evictions.uids if evictions is not None else set()
    preempted = [pod for pod in simulator.preempted if pod.uid not in live.waiting]
    ended = (pod for pod in simulator.preempted if controllers.has_ended(pod))
    gone = moved.union(pod.uid for pod in (*preempted, *ended))
    others = [one for uid, one in verdicts.items() if uid in known and uid not in gone]
    return Situation(
        asked=len(pods),
        starts=sum(bool(one.node) for one in pods),
        pods=tuple(pods),
        others_wait=sum(one.node is None and not one.pod.node_name for one in others),
        preempted=tuple(pod.key for pod in preempted),
        models=_models(simulator),
    )


def _as_result(verdict: Verdict) -> PodResult:
    return PodResult(
        namespace=verdict.pod.namespace,
        pod=verdict.pod.name,
        node=verdict.node or "",
        devices=verdict.devices or "",
        reason=verdict.reason,
        codes=verdict.codes,
    )


def _models(simulator: Simulator) -> tuple[ModelCapacity, ...]:
    summary = CapacitySummary()
    cluster = simulator.cluster
    for node_info in cluster.candidates():
        if node_info.node is not None:
            summary.add_node(devices_of(node_info, cluster.dra))
    return summary.models()
