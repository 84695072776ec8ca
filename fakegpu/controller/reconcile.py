"""Looks at nodes one by one and writes what differs from the plan; the controller's only loop.

    watches -> world.fold -> dirty nodes -> look (plan, compare) -> writes
                   ^                                                  |
                   +------------- what was written comes back --------+

A node is looked at by one worker at a time. What fails is tried again after a pause that grows.
What is there already is not written again, so a cluster at rest costs nothing.
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

#: How long a new KWOK node is left to KWOK, which may not be there at all.
KWOK_BEGINS_S = 5.0
RETRY_FIRST_S = 0.2
RETRY_MAX_S = 15.0
TICK_S = 0.05  # by which two clocks may differ over a while

log = structlog.get_logger("fakegpu")


class Reconciler:
    """Works on the world's dirty nodes while ``leads``."""

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
        """Something happened."""
        self._world.fold(event)
        for problem in self._world.problems:
            log.error("topology", problem=problem)
        self._world.problems.clear()
        self._wake.set()

    def led(self) -> None:
        """The lead was taken or lost: what others wrote meanwhile is not known."""
        self._node_states.clear()
        self._world.touch_all()
        self._wake.set()

    def synced(self) -> None:
        """Everything was listed once."""
        self.is_synced = True
        self._wake.set()

    def kwok_topologies(self) -> Iterator[tuple[str, NodeTopology]]:
        """What KWOK nodes have, as it was planned last; nothing while this replica stands by."""
        for name, state in self._node_states.items():
            node = self._world.nodes.get(name)
            if node is not None and node.is_kwok and state.memory.topology is not None:
                yield name, state.memory.topology

    async def run(self) -> None:
        """Work for ever; ends by cancellation."""
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
                await self._look(name)
            except (ApiError, Unreachable) as error:
                self._later(name, error)
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

    def _later(self, name: str, error: ApiError | Unreachable) -> None:
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

    async def _look(self, name: str) -> None:
        node = self._world.nodes.get(name)
        pool_name = self._world.pool_name(node) if node else ""
        pool = self._world.pool(pool_name) if pool_name else None
        topology = self._world.topology
        if topology is None:
            return  # nothing is known, so nothing is taken away either
        problem = topology.problems.get(pool_name)
        invalid = (Note("PoolInvalid", problem),) if problem else ()
        if node is None or pool is None:
            if problem:  # what the pool was like is not known, and a typo takes nothing away
                await self._tell(node, invalid)
            else:
                await self._leave(name, node, pool_name)
            return
        if not self._waits_for_kwok(node, self._node_states.setdefault(name, NodeSyncState())):
            await self._keep(node, topology, pool, invalid)

    async def _keep(
        self, node: NodeFacts, topology: Topology, pool: Pool, invalid: tuple[Note, ...]
    ) -> None:
        """Make a node what its pool says, and come back when something of it is due."""
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
            cuts=self._world.cuts.get(name),
            claimed=self._world.claims.on(name),
            is_dynamic=self._settings.cuts and node.labels.get(MIG_DYNAMIC) == "true",
        )
        made = plan(view, state.memory, self._settings, now=now, wall=wall, draw=draw)
        state.memory = made.memory
        await write_news(self._writer, self._world, node, made, state)
        if node.is_kwok:
            await self._slices.show(name, node.uid, made.slices)
        await self._tell(node, (*invalid, *made.notes))
        await self._answer(name, made)
        state.failures = 0
        if made.memory.ready_at is not None:
            self._again_in(max(0.0, made.memory.ready_at - now), name)
        if changes_at is not None:
            self._wake_at(state, name, now, now + changes_at - wall)

    async def _answer(self, name: str, made: Plan) -> None:
        """Answer requests: the scheduler's instances, the pods' devices and refusals."""
        if made.cut_answer is not None:
            await self._writer.answer(name, made.cut_answer)
        for mark in made.marks:
            await self._writer.mark(mark)
        for refusal in made.refusals:
            await self._writer.refuse(refusal)

    def _wake_at(self, state: NodeSyncState, name: str, now: float, due_at: float) -> None:
        """Look again when a pod's script goes on; one clock is enough, however often we look."""
        if not now < state.wakes_at <= due_at + TICK_S:
            state.wakes_at = due_at + TICK_S
            self._again_in(state.wakes_at - now, name)

    def _waits_for_kwok(self, node: NodeFacts, state: NodeSyncState) -> bool:
        """Let KWOK begin with a new node: each of our changes before that restarts it."""
        if not node.is_kwok or node.is_begun:
            return False
        now = self._clock()
        if state.first_seen is None:
            state.first_seen = now
            self._again_in(KWOK_BEGINS_S, node.name)
        return now < state.first_seen + KWOK_BEGINS_S

    async def _leave(self, name: str, node: NodeFacts | None, pool_name: str) -> None:
        """A node that is in no pool: what we gave it goes, the ConfigMap last, as the marker."""
        self._world.lost.discard(self._world.map_name(name))  # it is not written again
        state = self._node_states.pop(name, None)
        if node is not None and pool_name:
            self._node_states[name] = NodeSyncState(said=state.said if state else frozenset())
            note = Note("PoolUnknown", f"there is no pool {pool_name} in the topology")
            await self._tell(node, (note,))
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

    async def _tell(self, node: NodeFacts | None, notes: tuple[Note, ...]) -> None:
        """Send what is news; what is not said any more may be said again later."""
        if node is None:
            return
        state = self._node_states.setdefault(node.name, NodeSyncState())
        said, state.said = state.said, frozenset(note.key for note in notes)
        for note in notes:
            if note.key not in said:
                log.info(note.text, node=node.name, reason=note.reason)
                await self._writer.event(node, note)
