"""Reconciles nodes one by one: writes the differences from the plan; the controller's only loop.

    watches -> cache.fold -> dirty nodes -> reconcile (plan, compare) -> writes
                   ^                                                       |
                   +--------------- the watches show the writes -----------+

One worker at a time reconciles a node. A failure is retried with exponential backoff. An unchanged
document is not written again, so an idle cluster costs nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import structlog

from fakegpu import names
from fakegpu.api_types import NodeFacts
from fakegpu.controller.apply import Writer
from fakegpu.controller.cluster_cache import ClusterCache
from fakegpu.controller.node_events import Event
from fakegpu.controller.node_sync import NodeSyncState, write_news
from fakegpu.controller.plan import plan
from fakegpu.controller.plan_types import Note, Plan, Settings, View
from fakegpu.dra.kwok import KwokSlices
from fakegpu.node.advertised_devices import Amounts
from fakegpu.node.utilization import as_of
from fakegpu.topology.node_topology import NodeTopology
from fakegpu.topology.pools import Pool, Topology
from scheduler.model.well_known import MIG_DYNAMIC
from scheduler.watch.client import ApiError, Unreachable

#: How long a new KWOK node is left to KWOK, which may not be installed.
KWOK_BEGINS_S = 5.0
RETRY_FIRST_S = 0.2
RETRY_MAX_S = 15.0
TICK_S = 0.05  # clock differences over time

log = structlog.get_logger("fakegpu")


class Reconciler:
    """Reconciles dirty nodes while ``leads``."""

    def __init__(
        self,
        world: ClusterCache,
        writer: Writer,
        slices: KwokSlices,
        settings: Settings,
        leads: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], float],
        rng: random.Random,
        workers: int,
    ) -> None:
        self._world = world
        self._writer = writer
        self._slices = slices
        self._settings = settings
        self._leads = leads
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._workers = workers
        self._node_states: dict[str, NodeSyncState] = {}
        self._busy: set[str] = set()
        self._wake = asyncio.Event()
        self.is_synced = False

    def emit(self, event: Event) -> None:
        """Fold an event."""
        self._world.fold(event)
        for problem in self._world.problems:
            log.error("topology", problem=problem)
        self._world.problems.clear()
        self._wake.set()

    def led(self) -> None:
        """Leadership changed: the writes of other replicas are unknown."""
        self._node_states.clear()
        self._world.touch_all()
        self._wake.set()

    def synced(self) -> None:
        """Every kind was listed once."""
        self.is_synced = True
        self._wake.set()

    def kwok_topologies(self) -> Iterator[tuple[str, NodeTopology]]:
        """The topologies of KWOK nodes, as planned last; empty on a standby."""
        for name, state in self._node_states.items():
            node = self._world.nodes.get(name)
            if node is not None and node.is_kwok and state.memory.topology is not None:
                yield name, state.memory.topology

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"worker {number}")

    async def _work(self) -> None:
        while True:
            name = self._next()
            if name is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            self._busy.add(name)
            try:
                await self._sync_node(name)
            except (ApiError, Unreachable) as error:
                self._retry_later(name, error)
            finally:
                self._busy.discard(name)
                # A worker that found this node busy has put it back and waits.
                self._wake.set()

    def _next(self) -> str | None:
        if not (self.is_synced and self._leads()):
            return None
        for name in self._world.dirty:
            if name not in self._busy:
                del self._world.dirty[name]
                return name
        return None

    def _retry_later(self, name: str, error: ApiError | Unreachable) -> None:
        state = self._node_states.setdefault(name, NodeSyncState())
        state.failures += 1
        state.written = None
        pause_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(state.failures, 10))
        log.warning("not written yet", node=name, problem=str(error), again_in_s=pause_s)
        self._again_in(pause_s, name)

    def _again_in(self, pause_s: float, name: str) -> None:
        asyncio.get_running_loop().call_later(pause_s, self._touch, name)

    def _touch(self, name: str) -> None:
        self._world.dirty[name] = None
        self._wake.set()

    async def _sync_node(self, name: str) -> None:
        node = self._world.nodes.get(name)
        pool_name = self._world.pool_name(node) if node else ""
        pool = self._world.pool(pool_name) if pool_name else None
        topology = self._world.topology
        if topology is None:
            return  # the topology is unknown, so nothing is removed
        problem = topology.problems.get(pool_name)
        invalid = (Note("PoolInvalid", problem),) if problem else ()
        if node is None or pool is None:
            if problem:  # the former pool is unknown, and a typo must not remove anything
                await self._report_notes(node, invalid)
            else:
                await self._remove_node(name, node, pool_name)
            return
        if not self._waits_for_kwok(node, self._node_states.setdefault(name, NodeSyncState())):
            await self._keep(node, topology, pool, invalid)

    async def _keep(
        self, node: NodeFacts, topology: Topology, pool: Pool, invalid: tuple[Note, ...]
    ) -> None:
        """Reconcile a node of a pool, and schedule its next change."""
        name, state = node.name, self._node_states[node.name]
        now, wall, draw = self._clock(), self._wall(), self._rng.uniform(0, 1)
        pods, changes_at = as_of(self._world.pods_on(name), wall)
        view = View(
            node=node,
            topology=topology,
            pool=pool,
            plugin=self._world.plugin_config(node),
            pods=pods,
            record=self._world.map_of(name),
            mig_partitions=self._world.mig_partitions.get(name),
            claimed=self._world.claims.on(name),
            is_dynamic=self._settings.mig_partitions and node.labels.get(MIG_DYNAMIC) == "true",
        )
        made = plan(view, state.memory, self._settings, now=now, wall=wall, draw=draw)
        state.memory = made.memory
        await write_news(self._writer, self._world, node, made, state)
        if node.is_kwok:
            await self._slices.show(name, node.uid, made.slices)
        await self._report_notes(node, (*invalid, *made.notes))
        await self._answer(name, made)
        state.failures = 0
        if made.memory.ready_at is not None:
            self._again_in(max(0.0, made.memory.ready_at - now), name)
        if changes_at is not None:
            self._wake_at(state, name, now, now + changes_at - wall)

    async def _answer(self, name: str, made: Plan) -> None:
        """Write the MigPartition status, the pods' devices and the rejections."""
        if made.partition_status is not None:
            await self._writer.answer(name, made.partition_status)
        for mark in made.marks:
            await self._writer.mark(mark)
        for refusal in made.refusals:
            await self._writer.refuse(refusal)

    def _wake_at(self, state: NodeSyncState, name: str, now: float, due_at: float) -> None:
        """Reconcile again at the next change of a pod's script; one timer per node is enough."""
        if not now < state.wakes_at <= due_at + TICK_S:
            state.wakes_at = due_at + TICK_S
            self._again_in(state.wakes_at - now, name)

    def _waits_for_kwok(self, node: NodeFacts, state: NodeSyncState) -> bool:
        """Let KWOK start with a new node: each earlier write would restart it."""
        if not node.is_kwok or node.is_begun:
            return False
        now = self._clock()
        if state.first_seen is None:
            state.first_seen = now
            self._again_in(KWOK_BEGINS_S, node.name)
        return now < state.first_seen + KWOK_BEGINS_S

    async def _remove_node(self, name: str, node: NodeFacts | None, pool_name: str) -> None:
        """Clean up a node without a pool; the ConfigMap is deleted last, as the marker."""
        self._world.lost.discard(self._world.map_name(name))  # it is not written again
        state = self._node_states.pop(name, None)
        if node is not None and pool_name:
            self._node_states[name] = NodeSyncState(
                reported=state.reported if state else frozenset()
            )
            note = Note("PoolUnknown", f"there is no pool {pool_name} in the topology")
            await self._report_notes(node, (note,))
        record = self._world.map_of(name)
        if record is None or record.labels.get(names.NODE_TOPOLOGY_LABEL) != "true":
            return
        if names.KWOK_ANNOTATION in record.annotations:
            await self._slices.hide(name)
        if node is not None:
            # Empty, not absent: a removed value would take the machine's CPU with it.
            await self._writer.node(node, {}, {}, Amounts({}, {}) if node.is_kwok else None)
        if self._settings.zones:
            await self._writer.remove_zones(name)
        await self._writer.remove_map(record.name)

    async def _report_notes(self, node: NodeFacts | None, notes: tuple[Note, ...]) -> None:
        """Send new events; an event that is not current any more may be sent again later."""
        if node is None:
            return
        state = self._node_states.setdefault(node.name, NodeSyncState())
        reported, state.reported = state.reported, frozenset(note.key for note in notes)
        for note in notes:
            if note.key not in reported:
                log.info("node event", node=node.name, reason=note.reason, note=note.text)
                await self._writer.event(node, note)
