"""Runs actions: maps each action to its I/O shell."""

from __future__ import annotations

import msgspec

from scheduler.bind.migration_worker import MigrationWorker
from scheduler.bind.partition_writer import PartitionWriter
from scheduler.bind.pod_recreator import PodRecreator
from scheduler.controllers.bindings import BindingController
from scheduler.model import actions
from scheduler.report.events.recorder import Recorder
from scheduler.watch.terminated_pods import TerminatedPodLookup


class Shells(msgspec.Struct, frozen=True):
    """The I/O shells that have a queue of requests; none of them blocks."""

    recorder: Recorder
    terminated_pods: TerminatedPodLookup
    migrations: MigrationWorker
    partitions: PartitionWriter
    recreator: PodRecreator


class ActionRunner:
    """Hands every action to its shell, in order and without waiting."""

    def __init__(self, shells: Shells, bindings: BindingController) -> None:
        self._shells = shells
        self._bindings = bindings

    def run(self, action: actions.Action) -> None:
        """Run one action."""
        match action:
            case actions.StartBinding(uid):
                self._bindings.start(uid)
            case actions.DropPlacement(uid):
                self._bindings.drop(uid)
            case actions.LookUpPod(pod):
                self._shells.terminated_pods.look_up(pod)
            case actions.RequestPartitions() | actions.SetMigConfig():
                self._shells.partitions.send(action)
            case actions.RecreatePod():
                self._shells.recreator.send(action)
            case _ if isinstance(action, actions.RecorderAction):
                self._shells.recorder.record(action)
            case _:
                self._shells.migrations.send(action)
