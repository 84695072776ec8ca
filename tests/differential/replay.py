"""Replays a recording: our side sees the recorded steps, and must answer as kube-scheduler did.

Pods go where they went in the recording, so that a change of our scores keeps the history.
"""

from __future__ import annotations

from typing import Any

from tests.differential import manifests
from tests.differential.answers import Answer, OurAnswer, allocation_difference, difference
from tests.differential.dra.acceptor import Acceptor
from tests.differential.dra.objects import created, statuses
from tests.differential.dra.replayed import ReplayedClaims
from tests.differential.manifests import key_of
from tests.differential.our_side import OurSide
from tests.differential.recordings import Recording
from tests.differential.sequence import (
    AllocateClaim,
    CreatePod,
    DeleteNode,
    DeleteObject,
    DeletePod,
    EndPod,
    LabelPod,
    ObjectChange,
    PlacePod,
    PodChange,
    Sequence,
    SetNamespace,
    SetNode,
    SetObject,
)

Json = dict[str, Any]


def replay(recording: Recording, acceptor: Acceptor | None = None) -> str:
    """The first difference, with the name of its pod; empty where there is none.

    The ``acceptor`` is asked about every allocation of ours.
    """
    sequence = recording.sequence
    world = _World(sequence, acceptor)
    answers = iter(recording.answers)
    for step in sequence.every_step():
        if isinstance(step, CreatePod):
            problem = world.place(step, next(answers))
            if problem:
                return f"{sequence.name}, pod {step.name}: {problem}"
        else:
            world.change(step)
    return ""


class _World:
    """Our side, and the pods that are there."""

    def __init__(self, sequence: Sequence, acceptor: Acceptor | None) -> None:
        self._acceptor = acceptor
        self._side = OurSide()
        self._workloads = sequence.workloads
        self._preempts = sequence.preempts
        self._pods_waiting: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._objects: dict[tuple[str, str], Json] = {}
        self._claims = ReplayedClaims(self._objects, self._see, self._lose)

    def place(self, step: CreatePod, theirs: Answer) -> str:
        """Create a pod, compare the answers, and let it go where it went."""
        name = step.name
        workload = self._workloads[step.workload]
        manifest = manifests.admitted(manifests.pod(name, workload))
        for claim in created(manifest, workload.templates):
            self._see("resourceclaims", claim)
        if workload.templates:
            manifest["status"] = statuses(name, workload.templates)
        self._pods_waiting = {name: manifest}
        self._see_ephemeral(manifest)
        self._side.see("pods", manifest)
        ours = self._side.answer(name)
        problem = difference(theirs, ours)
        if theirs.preemption is not None and theirs.nodes:
            problem = problem or self._preempt(name, theirs)
        problem = (
            problem
            or allocation_difference(theirs, ours)
            or self._claims.deallocation_difference(theirs, ours)
            or self._refused(ours)
        )
        for effect in theirs.effects:
            if isinstance(effect, AllocateClaim):
                self._claims.allocate(effect, manifest)
            else:
                self._change_object(effect)
        if theirs.choice:
            manifest["spec"]["nodeName"] = theirs.choice
            if self._preempts:
                times = {"phase": "Running", "startTime": manifests.start_time(name)}
                manifest["status"] = times
            self._pods[name] = manifest
            self._side.see("pods", manifest)
        else:
            self._end(name, manifest)
        return problem

    def _see_ephemeral(self, manifest: Json) -> None:
        for claim in manifests.ephemeral_claims(manifest, manifest["metadata"]["name"]):
            self._see("persistentvolumeclaims", claim)

    def _end(self, name: str, manifest: Json) -> None:
        """The pod is gone, and what belongs to it."""
        self._side.see("pods", manifest, is_gone=True)
        self._claims.release(name)
        for claim in manifests.ephemeral_claims(manifest, name):
            self._lose("persistentvolumeclaims", key_of(claim))

    def _refused(self, ours: OurAnswer) -> str:
        """Which allocation of ours the real allocator does not accept."""
        if self._acceptor is None:
            return ""
        store = self._side.cluster.dra
        for new in ours.claims.new.values():
            problem = self._acceptor.problem(store, self._objects, new)
            if problem:
                return f"{new.node.name}: not accepted: {problem}"
        return ""

    def _preempt(self, name: str, theirs: Answer) -> str:
        """Delete the victims; the pod is asked about again on its nominated node only."""
        assert theirs.preemption is not None
        nominated = theirs.preemption.nominated
        manifest = self._pods_waiting[name]
        manifest["status"] = {"nominatedNodeName": nominated}
        self._side.see("pods", manifest)
        for victim in theirs.preemption.candidates[nominated].pods.split():
            self._side.see("pods", self._pods.pop(victim), is_gone=True)
        again = self._side.answer(name).only_at(nominated)
        return difference(Answer(nodes=theirs.nodes), again)

    def change(self, step: PlacePod | PodChange | ObjectChange) -> None:
        """Any other step."""
        match step:
            case PlacePod(name, number, node_name):
                workload = self._workloads[number]
                self._pods[name] = manifests.admitted(manifests.foreign(name, workload, node_name))
                self._side.see("pods", self._pods[name])
                self._see_ephemeral(self._pods[name])
            case DeletePod(name) | EndPod(name) | LabelPod(name):
                if name in self._pods:
                    self._change_pod(step, self._pods[name])
            case _:
                self._change_object(step)

    def _change_object(self, step: ObjectChange) -> None:
        match step:
            case SetNamespace(name, labels):
                self._see("namespaces", manifests.namespace(name, labels))
            case SetNode(form):
                self._see("nodes", manifests.node(form))
            case DeleteNode(name):
                self._lose("nodes", name)
            case SetObject(kind, manifest):
                if kind != "resourceclaims" or (kind, key_of(manifest)) not in self._objects:
                    self._see(kind, manifest)
            case DeleteObject("resourceclaims", key):
                if not self._claims.users(key) & self._pods.keys():
                    self._lose("resourceclaims", key)
            case DeleteObject(kind, key):
                self._lose(kind, key)

    def _see(self, kind: str, manifest: Json) -> None:
        stored = self._objects[kind, key_of(manifest)] = manifests.stored(manifest)
        self._side.see(kind, stored)

    def _lose(self, kind: str, key: str) -> None:
        if (kind, key) in self._objects:
            self._side.see(kind, self._objects.pop((kind, key)), is_gone=True)

    def _change_pod(self, step: PodChange, manifest: Json) -> None:
        match step:
            case DeletePod(name, graceful=False) | EndPod(name):
                del self._pods[name]
                self._end(name, manifest)
            case DeletePod():
                manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                self._side.see("pods", manifest)
            case LabelPod(labels=labels):
                manifest["metadata"]["labels"] = labels
                self._side.see("pods", manifest)
