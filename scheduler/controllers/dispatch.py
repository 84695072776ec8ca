"""Calls the handlers of an event, and passes their actions to the I/O shells.

The loop calls an event handler for the types of events that it names, and the tickers once a
second; ``controllers/table`` defines the order of both. Only this module knows which shell runs an
action.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from scheduler.bind.claim_writer import ClaimWriter
from scheduler.bind.groups.owner_reader import GroupOwnerReader
from scheduler.bind.groups.state_writer import GroupWriter
from scheduler.bind.migration_worker import MigrationWorker
from scheduler.bind.partition_writer import PartitionWriter
from scheduler.bind.pod_preemptor import PodPreemptor
from scheduler.bind.pod_recreator import PodRecreator
from scheduler.bind.volume_binder import VolumeBinder
from scheduler.controllers.bindings import BindingController
from scheduler.model import actions
from scheduler.model.crd.migration_actions import MigrationAction
from scheduler.model.pods.pod import Pod
from scheduler.report.events.recorder import Recorder
from scheduler.state import event as ev
from scheduler.state.effects import Effects
from scheduler.watch.terminated_pods import TerminatedPodLookup


class EventHandler(Protocol):
    """Reads an event, changes the state that it owns, and returns the rest as effects."""

    @property
    def name(self) -> str:
        """The name in the log line of an internal error."""

    @property
    def handles(self) -> tuple[type, ...]:
        """The types of the events that can change its state or have effects."""

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Handle one event; ``now`` is the loop's clock."""


class Ticker(Protocol):
    """Does periodic work."""

    @property
    def name(self) -> str:
        """The name in the log line of an internal error."""

    def tick(self, now: float, *, leads: bool) -> Effects:
        """A second has passed; ``leads`` says whether this process may decide and send."""


class EventRoutes:
    """The handlers by type of event, in the order of the table.

    ``not_for_waiting`` are names of handlers that ignore a pod without a node.
    """

    def __init__(
        self, handlers: Sequence[EventHandler], not_for_waiting: Collection[str] = ()
    ) -> None:
        self.handlers = tuple(handlers)
        self._by_type: Mapping[type, tuple[EventHandler, ...]] = MappingProxyType(
            {kind: tuple(one for one in handlers if kind in one.handles) for kind in ev.EVERY}
        )
        self._of_waiting_pods = tuple(
            one for one in self._by_type[ev.PodUpdated] if one.name not in not_for_waiting
        )

    def of(self, event: ev.Event) -> tuple[EventHandler, ...]:
        """The handlers of one event."""
        if isinstance(event, ev.PodUpdated) and _only_waits(event.pod):
            return self._of_waiting_pods
        return self._by_type[type(event)]


def _only_waits(pod: Pod) -> bool:
    """Whether a pod has no node, is decodable, and is neither ended nor deleted."""
    is_placed = pod.node_name or pod.allocated
    return not (is_placed or pod.is_deleting or pod.is_terminal or pod.unread)


class Shells(msgspec.Struct, frozen=True):
    """The I/O shells that have a queue of requests; none of them blocks."""

    recorder: Recorder
    terminated_pods: TerminatedPodLookup
    migrations: MigrationWorker
    partitions: PartitionWriter
    recreator: PodRecreator
    preemptor: PodPreemptor
    volumes: VolumeBinder
    claims: ClaimWriter
    groups: GroupWriter
    group_owners: GroupOwnerReader


class ActionRunner:
    """Hands every action to its shell, in order and without waiting."""

    def __init__(self, shells: Shells, bindings: BindingController) -> None:
        self._recorder = shells.recorder
        self._bindings = bindings
        self._migrations = shells.migrations
        senders: Mapping[type, Callable[[Any], None]] = {
            actions.LookUpPod: lambda action: shells.terminated_pods.look_up(action.pod),
            actions.RequestPartitions: shells.partitions.send,
            actions.SetMigConfig: shells.partitions.send,
            actions.RecreatePod: shells.recreator.send,
            actions.PreemptPods: shells.preemptor.send,
            actions.WriteVolumes: shells.volumes.send,
            actions.ReserveClaims: shells.claims.send,
            actions.ReleaseClaims: shells.claims.send,
            actions.WriteGroupState: shells.groups.send,
            actions.ReadGroupOwner: shells.group_owners.send,
        }
        self._senders = MappingProxyType(senders)

    def run(self, action: actions.Action) -> None:
        """Run one action."""
        match action:
            case actions.CompleteStep(uid, step):
                if self._bindings.complete(uid, step):
                    self._recorder.record(actions.DropCondition(uid))
                    self._bindings.start(uid)
            case actions.DropPlacement(uid):
                self._bindings.drop(uid, "taken back")
            case _ if isinstance(action, actions.RecorderAction):
                self._recorder.record(action)
            case _ if isinstance(action, MigrationAction):
                self._migrations.send(action)
            case _:
                self._senders[type(action)](action)
