"""What a node should be: from what is known of it, and the moment, to documents to write.

Pure. The documents are applied on the server's side (``kubectl apply --server-side``) by one field
manager, so whatever is not in them any more is taken away by the API server: nothing has to be
remembered for cleaning up, and a restart cleans up as well.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fakegpu import names
from fakegpu.api_types import MapFacts, NodeFacts
from fakegpu.controller import documents, mig_layout, plan_events
from fakegpu.controller.plan_types import Memory, Plan, Settings, View
from fakegpu.node import faults, partitions
from fakegpu.node.admission import refusals
from fakegpu.node.advertised_devices import amounts
from fakegpu.node.device_assignment import assign
from fakegpu.node.hardware import hardware
from fakegpu.node.partition_operator import Moment
from fakegpu.node.resource_slices import contents
from fakegpu.topology.mig_config import Layouts
from fakegpu.topology.node_topology import Failure, MigStrategy, NodeTopology, Sharing


def plan(
    view: View, memory: Memory, settings: Settings, *, now: float, wall: float, draw: float
) -> Plan:
    """What the node should be at a moment, which is told on both clocks (seconds).

    ``draw`` (0 to 1) decides about a repartition that may fail.
    """
    node = view.node
    known = faults.read(node.annotations)
    before = memory.topology or mig_layout.recorded(view.record)
    before = partitions.whole(before) if before else None
    at = _moment(known, settings, now, wall, draw)
    step, kept, answer = mig_layout.partition(view, memory, before, at)
    bare = _bare(view, step.layouts, known.failures, settings)
    refused = tuple(refusals(bare, view.pods, before)) if node.is_kwok else ()
    pods = [pod for pod in view.pods if all(pod is not one.pod for one in refused)]
    there = partitions.cut(node.name, bare, _allocated(view))
    topology = assign(
        there, pods, before=before, assigned=assigned(view.record), claimed=view.claimed
    )
    return Plan(
        config_map=documents.config_map(view, topology, step.applied, settings),
        labels=documents.node_labels(node, topology, step, settings),
        annotations=documents.node_annotations(topology, step, known.unusable),
        amounts=amounts(topology, known.allocatable) if _is_ours(node) else None,
        memory=msgspec.structs.replace(kept, topology=topology),
        cut_answer=answer,
        notes=(
            *plan_events.notes(view, topology, step, known, memory),
            *plan_events.refused(refused),
        ),
        marks=tuple(plan_events.marks(topology, pods)),
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
    """The node while nobody uses it."""
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
        return "mixed"  # nothing else tells instances of different profiles apart
    plugin = view.plugin.mig_strategy if view.plugin else None
    return view.pool.mig_strategy or plugin or view.topology.mig_strategy


def _sharing(view: View) -> Sharing:
    if view.pool.sharing is not None:
        return view.pool.sharing
    return view.plugin.sharing if view.plugin else Sharing()


_ASSIGNED = msgspec.json.Decoder(dict[str, tuple[str, ...]])


def assigned(record: MapFacts | None) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """What the node's agent saw: ``namespace/pod/container`` -> the ids that were handed out."""
    text = record.data.get(names.ASSIGNED_KEY, "") if record else ""
    if not text:
        return {}
    try:
        told = _ASSIGNED.decode(text)
    except msgspec.MsgspecError:
        return {}
    keys = ((key.split("/"), ids) for key, ids in told.items())
    return {(key[0], key[1], key[2]): ids for key, ids in keys if len(key) == 3}
