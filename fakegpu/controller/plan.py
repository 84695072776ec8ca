"""The desired state of a node: from observed objects and the time to documents.

Pure. The documents are applied server-side (``kubectl apply --server-side``) by one field manager,
so the API server removes fields that a document no longer has: cleaning up needs no memory, and
works after a restart too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET

from fakegpu import names
from fakegpu.api_types import MapFacts, NodeFacts
from fakegpu.controller import documents
from fakegpu.controller.plan_types import NOT_ADMITTED, Mark, Memory, Note, Plan, Settings, View
from fakegpu.node import faults
from fakegpu.node.admission import Refusal, refusals
from fakegpu.node.advertised_devices import amounts
from fakegpu.node.device_assignment import assign
from fakegpu.node.device_status import holders_of
from fakegpu.node.hardware import hardware, layouts_of
from fakegpu.node.mig import mig_manager, partitions
from fakegpu.node.mig.partition_operator import Moment, create_partitions
from fakegpu.node.pod_devices import PodUse
from fakegpu.node.resource_slices import contents
from fakegpu.topology.mig_config import Layouts
from fakegpu.topology.node_topology import (
    Failure,
    MigStrategy,
    NodeTopology,
    Sharing,
    TopologyError,
    decode_yaml,
)
from fakegpu.topology.pools import Pool
from scheduler.model.crd.mig_partition import MigInstance, NodePartitions
from scheduler.model.mig import layout as mig_layout


def plan(
    view: View, memory: Memory, settings: Settings, *, now: float, wall: float, draw: float
) -> Plan:
    """The desired state of the node at a time, which is given on both clocks (seconds).

    ``draw`` (0 to 1) decides whether a repartition with a failure rate fails.
    """
    node = view.node
    known = faults.read(node.annotations)
    before = memory.topology or recorded(view.record)
    before = partitions.whole(before) if before else None
    at = _moment(known, settings, now, wall, draw)
    step, kept, answer = partition(view, memory, before, at)
    bare = _bare(view, step.layouts, known.failures, settings)
    refused = tuple(refusals(bare, view.pods, before)) if node.is_kwok else ()
    pods = [pod for pod in view.pods if all(pod is not one.pod for one in refused)]
    there = partitions.partitioned(node.name, bare, _allocated(view))
    topology = assign(
        there, pods, before=before, assigned=assigned(view.record), claimed=view.claimed
    )
    return Plan(
        config_map=documents.config_map(view, topology, step.applied, settings),
        labels=documents.node_labels(node, topology, step, settings),
        annotations=documents.node_annotations(topology, step, known.unusable),
        amounts=amounts(topology, known.allocatable) if _is_ours(node) else None,
        memory=msgspec.structs.replace(kept, topology=topology),
        partition_status=answer,
        notes=(
            *notes(view, topology, step, known, memory),
            *refusal_notes(refused),
        ),
        marks=tuple(marks(topology, pods)),
        slices=contents(node.name, bare) if settings.dra_on_kwok and node.is_kwok else None,
        refusals=refused,
        zones=documents.zones(node, topology) if settings.zones else None,
    )


def _moment(
    known: faults.Faults, settings: Settings, now: float, wall: float, draw: float
) -> Moment:
    rate = settings.failure_rate if known.mig.fail_rate is None else known.mig.fail_rate
    latency_s = settings.latency_s if known.mig.latency_s is None else known.mig.latency_s
    return Moment(
        now=now,
        wall=wall,
        latency_s=latency_s,
        fails=draw < rate,
        broken=frozenset(known.unusable),
    )


def _bare(
    view: View, layouts: Layouts | None, failures: Mapping[int, Failure], settings: Settings
) -> NodeTopology:
    """The node without allocations."""
    is_kwok = view.node.is_kwok
    return hardware(
        view.node.name,
        view.pool,
        layouts,
        strategy=_strategy(view),
        sharing=_sharing(view),
        failures={i: f for i, f in failures.items() if i < len(view.pool.gpus)},
        dra=settings.dra_on_kwok if is_kwok else settings.dra_on_kubelets,
        in_parts=settings.in_parts,
    )


def _allocated(view: View) -> frozenset[str]:
    return frozenset(one.device for held in view.claimed.values() for one in held)


def _is_ours(node: NodeFacts) -> bool:
    return node.is_kwok and node.is_ready_for_status


def _strategy(view: View) -> MigStrategy:
    if view.is_dynamic:
        return "mixed"  # only this strategy distinguishes instances of different profiles
    plugin = view.plugin.mig_strategy if view.plugin else None
    return view.pool.mig_strategy or plugin or view.topology.mig_strategy


def _sharing(view: View) -> Sharing:
    if view.pool.sharing is not None:
        return view.pool.sharing
    return view.plugin.sharing if view.plugin else Sharing()


_ASSIGNED = msgspec.json.Decoder(dict[str, tuple[str, ...]])


def assigned(record: MapFacts | None) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """The agent's record: ``namespace/pod/container`` -> the allocated ids."""
    text = record.data.get(names.ASSIGNED_KEY, "") if record else ""
    if not text:
        return {}
    try:
        decoded = _ASSIGNED.decode(text)
    except msgspec.MsgspecError:
        return {}
    keys = ((key.split("/"), ids) for key, ids in decoded.items())
    return {(key[0], key[1], key[2]): ids for key, ids in keys if len(key) == 3}


# --- MIG layout ------------------------------------------------------------------------------

#: The layout, the new memory, and the new MigPartition status if it changed.
Outcome = tuple[mig_manager.Step, Memory, tuple[MigInstance, ...] | None]


def partition(view: View, memory: Memory, before: NodeTopology | None, at: Moment) -> Outcome:
    """The current layout of the node's GPUs; ``before`` was written last."""
    if view.is_dynamic:
        return _with_requested_partitions(view, memory, before, at)
    pool, node = view.pool, view.node
    base = _begin(pool)
    want = mig_manager.wanted(
        node.annotations.get(names.MIG_CONFIG, ""),
        node.labels.get(names.MIG_CONFIG_LABEL, ""),
        pool,
    )
    if want is None:
        return mig_manager.Step(layouts=base), Memory(), None
    step = mig_manager.step(
        want,
        _still_legal(pool, before, base),
        memory.applied if memory.topology else _remembered(view.record),
        before,
        ready_at=memory.ready_at if memory.fingerprint == want.fingerprint else None,
        now=at.now,
        latency_s=at.latency_s,
        fails=at.fails,
    )
    kept = Memory(applied=step.applied, fingerprint=want.fingerprint, ready_at=step.ready_at)
    return step, kept, None


def _with_requested_partitions(
    view: View, memory: Memory, before: NodeTopology | None, at: Moment
) -> Outcome:
    """Dynamic MIG: every capable GPU is in MIG mode, and the scheduler requests its instances."""
    pool = view.pool
    empty: Layouts = tuple(None if gpu_model is None else () for gpu_model in pool.gpu_models)
    base = pool.layouts or empty
    current_layouts = _still_legal(pool, before, base)
    done = create_partitions(
        view.node.name,
        pool.gpu_models,
        tuple(empty[i] if layout is None else layout for i, layout in enumerate(current_layouts)),
        before,
        view.mig_partitions or NodePartitions(view.node.name),
        memory.begun,
        at,
    )
    answer = (
        done.answer
        if view.mig_partitions and done.answer != view.mig_partitions.instances
        else None
    )
    kept = Memory(begun=done.begun, ready_at=done.ready_at)
    return mig_manager.Step(layouts=done.layouts), kept, answer


def _begin(pool: Pool) -> Layouts:
    return pool.layouts or (None,) * len(pool.gpus)


def recorded(record: MapFacts | None) -> NodeTopology | None:
    """The topology that an earlier process wrote."""
    text = record.data.get(names.TOPOLOGY_KEY, "") if record else ""
    try:
        return decode_yaml(text) if text else None
    except TopologyError:
        return None


def _remembered(record: MapFacts | None) -> mig_manager.Applied:
    text = record.annotations.get(names.MIG_APPLIED, "") if record else ""
    return mig_manager.parse_applied(text)


def _still_legal(pool: Pool, before: NodeTopology | None, base: Layouts) -> Layouts:
    """The current layout, as far as the pool's GPUs still support it."""
    current = layouts_of(before) if before else base
    found: list[mig_layout.Layout | None] = []
    for index, gpu_model in enumerate(pool.gpu_models):
        layout = current[index] if index < len(current) else base[index]
        legal = layout is None or (gpu_model is not None and mig_layout.is_legal(gpu_model, layout))
        found.append(layout if legal else base[index])
    return tuple(found)


# --- events ----------------------------------------------------------------------------------


def notes(
    view: View,
    topology: NodeTopology,
    step: mig_manager.Step,
    known: faults.Faults,
    memory: Memory,
) -> Iterable[Note]:
    """The current events of the node; each is sent when it is new."""
    if step.note:
        yield Note("MigConfigFailed", f"MIG configuration {step.note}")
    elif step.state == "success" and memory.ready_at is not None:
        yield Note("MigConfigApplied", "MIG configuration carried out", is_warning=False)
    for problem in known.problems:
        yield Note("AnnotationIgnored", problem)
    by_name = {(pod.namespace, pod.name): pod for pod in view.pods}
    for index, gpu in enumerate(topology.gpus):
        if gpu.failure is UNSET or not faults.is_fatal(gpu.failure):
            continue
        text = f"GPU {index} ({gpu.id}) of node {view.node.name} {gpu.failure}"
        yield Note("GpuFailed", text)
        holders = {(one.namespace, one.pod) for one in holders_of(gpu)}
        for key in sorted(holders & by_name.keys()):
            yield Note("GpuFailed", f"{text}; this pod holds it", pod=by_name[key])


def refusal_notes(refusals: Iterable[Refusal]) -> Iterable[Note]:
    """The events of pods that a kubelet would not have admitted."""
    for one in refusals:
        yield Note(NOT_ADMITTED, f"Allocate failed: {one.text}", pod=one.pod)


def marks(topology: NodeTopology, pods: Iterable[PodUse]) -> Iterable[Mark]:
    """Reservation pods that hold a device and do not have its id yet."""
    held = {
        (holder.namespace, holder.pod): gpu.id
        for gpu in topology.gpus
        for holder in gpu.status.held_by
    }
    for pod in pods:
        device = held.get((pod.namespace, pod.name))
        if pod.reservation and device and not pod.marked:
            yield Mark(pod.namespace, pod.name, pod.uid, device)
