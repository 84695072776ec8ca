"""How a node's GPUs are cut at a moment: to order, by a configuration, or as its pool begins."""

from __future__ import annotations

from fakegpu import names
from fakegpu.api_types import MapFacts
from fakegpu.controller.plan_types import Memory, View
from fakegpu.node import mig_manager
from fakegpu.node.hardware import layouts_of
from fakegpu.node.partition_operator import Moment, cut_to_order
from fakegpu.topology.mig_config import Layouts
from fakegpu.topology.node_topology import NodeTopology, TopologyError, decode_yaml
from fakegpu.topology.pools import Pool
from scheduler.model.crd.mig_partition import MigInstance, NodePartitions
from scheduler.model.mig import layout as mig_layout

#: What is cut, what to remember, and the answer to orders where it is news.
Outcome = tuple[mig_manager.Step, Memory, tuple[MigInstance, ...] | None]


def partition(view: View, memory: Memory, before: NodeTopology | None, at: Moment) -> Outcome:
    """The state of the node's GPUs now; ``before`` is what was written last."""
    if view.is_dynamic:
        return _to_order(view, memory, before, at)
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


def _to_order(view: View, memory: Memory, before: NodeTopology | None, at: Moment) -> Outcome:
    """Every GPU that can be cut is in MIG mode, and the scheduler says what is on it."""
    pool = view.pool
    empty: Layouts = tuple(None if board is None else () for board in pool.boards)
    base = pool.layouts or empty
    now_cut = _still_legal(pool, before, base)
    done = cut_to_order(
        view.node.name,
        pool.boards,
        tuple(empty[i] if layout is None else layout for i, layout in enumerate(now_cut)),
        before,
        view.cuts or NodePartitions(view.node.name),
        memory.begun,
        at,
    )
    answer = done.answer if view.cuts and done.answer != view.cuts.instances else None
    kept = Memory(begun=done.begun, ready_at=done.ready_at)
    return mig_manager.Step(layouts=done.layouts), kept, answer


def _begin(pool: Pool) -> Layouts:
    return pool.layouts or (None,) * len(pool.gpus)


def recorded(record: MapFacts | None) -> NodeTopology | None:
    """The topology as it was written before this process began."""
    text = record.data.get(names.TOPOLOGY_KEY, "") if record else ""
    try:
        return decode_yaml(text) if text else None
    except TopologyError:
        return None


def _remembered(record: MapFacts | None) -> mig_manager.Applied:
    text = record.annotations.get(names.MIG_APPLIED, "") if record else ""
    return mig_manager.parse_applied(text)


def _still_legal(pool: Pool, before: NodeTopology | None, base: Layouts) -> Layouts:
    """What is cut now, as far as the pool's GPUs can be cut like that."""
    cut = layouts_of(before) if before else base
    found: list[mig_layout.Layout | None] = []
    for index, board in enumerate(pool.boards):
        layout = cut[index] if index < len(cut) else base[index]
        legal = layout is None or (board is not None and mig_layout.is_legal(board, layout))
        found.append(layout if legal else base[index])
    return tuple(found)
