"""Replays a recording: our side sees the recorded steps, and must answer as kube-scheduler did.

Pods go where they went in the recording, so that a change of our scores keeps the history.
"""

from __future__ import annotations

from typing import Any

from tests.differential import manifests
from tests.differential.answers import Answer, difference
from tests.differential.manifests import key_of
from tests.differential.our_side import OurSide
from tests.differential.recordings import Recording
from tests.differential.sequence import (
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


def replay(recording: Recording) -> str:
    """The first difference, with the name of its pod; empty where there is none."""
    sequence = recording.sequence
    world = _World(sequence)
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

    def __init__(self, sequence: Sequence) -> None:
        self._side = OurSide()
        self._workloads = sequence.workloads
        self._preempts = sequence.preempts
        self._pods_waiting: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._objects: dict[tuple[str, str], Json] = {}

    def place(self, step: CreatePod, theirs: Answer) -> str:
        """Create a pod, compare the answers, and let it go where it went."""
        name = step.name
        manifest = manifests.admitted(manifests.pod(name, self._workloads[step.workload]))
        self._pods_waiting = {name: manifest}
        self._side.see("pods", manifest)
        ours = self._side.answer(name)
        problem = difference(theirs, ours)
        if theirs.preemption is not None and theirs.nodes:
            problem = problem or self._preempt(name, theirs)
        for effect in theirs.effects:
            self._change_object(effect)
        if theirs.choice:
            manifest["spec"]["nodeName"] = theirs.choice
            if self._preempts:
                times = {"phase": "Running", "startTime": manifests.start_time(name)}
                manifest["status"] = times
            self._pods[name] = manifest
            self._side.see("pods", manifest)
        else:
            self._side.see("pods", manifest, is_gone=True)
        return problem

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
                self._see(kind, manifest)
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
                self._side.see("pods", manifest, is_gone=True)
            case DeletePod():
                manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                self._side.see("pods", manifest)
            case LabelPod(labels=labels):
                manifest["metadata"]["labels"] = labels
                self._side.see("pods", manifest)
