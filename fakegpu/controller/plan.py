"""What a node should be: from what is known of it, and the moment, to documents to write.

Pure. The documents are applied on the server's side (``kubectl apply --server-side``) by one field
manager, so whatever is not in them any more is taken away by the API server: nothing has to be
remembered for cleaning up, and a restart cleans up as well.
"""

from __future__ import annotations

import msgspec

from fakegpu import names
from fakegpu.controller import documents, news
from fakegpu.controller.planned import Memory, Plan, Settings, View
from fakegpu.controller.wire import MapFacts, NodeFacts
from fakegpu.node import faults, repartition
from fakegpu.node.hardware import hardware, layouts_of
from fakegpu.node.supply import amounts
from fakegpu.node.usage import assign
from fakegpu.topology.migconfig import Layouts
from fakegpu.topology.nodetopology import (
    MigStrategy,
    NodeTopology,
    Sharing,
    TopologyError,
    decode_yaml,
)
from fakegpu.topology.pools import Pool
from scheduler.model import mig


def plan(view: View, memory: Memory, settings: Settings, *, now: float, draw: float) -> Plan:
    """What the node should be; ``draw`` (0 to 1) decides about a repartition that may fail."""
    node, pool = view.node, view.pool
    known = faults.read(node.annotations)
    before = memory.topology or _recorded(view.record)
    step, fingerprint = _partition(view, memory, before, settings, known.mig, now, draw)
    bare = hardware(
        node.name,
        pool,
        step.layouts,
        strategy=_strategy(view),
        sharing=_sharing(view),
        failures={i: f for i, f in known.failures.items() if i < len(pool.gpus)},
    )
    topology = assign(bare, view.pods, before=before, assigned=assigned(view.record))
    return Plan(
        config_map=documents.config_map(view, topology, step.applied, settings),
        labels=documents.node_labels(node, topology, step, known, settings),
        annotations=documents.node_annotations(topology, step, known.unusable),
        amounts=amounts(topology, known.allocatable) if _is_ours(node) else None,
        memory=Memory(topology, step.applied, fingerprint, step.ready_at),
        notes=tuple(news.notes(view, topology, step, known, memory)),
        marks=tuple(news.marks(topology, view.pods)),
    )


def _is_ours(node: NodeFacts) -> bool:
    return node.is_kwok and node.is_ready_for_status


def _strategy(view: View) -> MigStrategy:
    plugin = view.plugin.mig_strategy if view.plugin else None
    return view.pool.mig_strategy or plugin or view.topology.mig_strategy


def _sharing(view: View) -> Sharing:
    if view.pool.sharing is not None:
        return view.pool.sharing
    return view.plugin.sharing if view.plugin else Sharing()


def _recorded(record: MapFacts | None) -> NodeTopology | None:
    """The topology as it was written before this process began."""
    text = record.data.get(names.TOPOLOGY_KEY, "") if record else ""
    try:
        return decode_yaml(text) if text else None
    except TopologyError:
        return None


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


def _partition(
    view: View,
    memory: Memory,
    before: NodeTopology | None,
    settings: Settings,
    injected: faults.MigFaults,
    now: float,
    draw: float,
) -> tuple[repartition.Step, str]:
    """How the GPUs are cut, and the fingerprint of what is wanted."""
    node, pool = view.node, view.pool
    base: Layouts = pool.layouts or (None,) * len(pool.gpus)
    want = repartition.wanted(
        node.annotations.get(names.MIG_CONFIG, ""),
        node.labels.get(names.MIG_CONFIG_LABEL, ""),
        pool,
    )
    if want is None:
        return repartition.Step(layouts=base), ""
    applied = memory.applied if memory.topology else _remembered(view.record)
    latency_s = settings.latency_s if injected.latency_s is None else injected.latency_s
    rate = settings.failure_rate if injected.fail_rate is None else injected.fail_rate
    step = repartition.step(
        want,
        _still_legal(pool, before, base),
        applied,
        before,
        ready_at=memory.ready_at if memory.fingerprint == want.fingerprint else None,
        now=now,
        latency_s=latency_s,
        fails=draw < rate,
    )
    return step, want.fingerprint


def _remembered(record: MapFacts | None) -> repartition.Applied:
    text = record.annotations.get(names.MIG_APPLIED, "") if record else ""
    return repartition.parse_applied(text)


def _still_legal(pool: Pool, before: NodeTopology | None, base: Layouts) -> Layouts:
    """What is cut now, as far as the pool's GPUs can be cut like that."""
    cut = layouts_of(before) if before else base
    found: list[mig.Layout | None] = []
    for index, board in enumerate(pool.boards):
        layout = cut[index] if index < len(cut) else base[index]
        legal = layout is None or (board is not None and mig.is_legal(board, layout))
        found.append(layout if legal else base[index])
    return tuple(found)
