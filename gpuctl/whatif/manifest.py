"""The pods that a manifest would create in the cluster as it is.

A workload that exists already gets only the pods that it lacks. Objects that the scheduler does not
read are skipped with a note.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from gpuctl.device_words import counted
from gpuctl.input_error import InputError
from gpuctl.simulate.input import by_kind, expanded
from gpuctl.simulate.manifests import Document, Raw, text_of
from gpuctl.simulate.workload_expansion import EXPANDERS, PlannedPod, bare
from gpuctl.targets import Target
from gpuctl.whatif.live_state import LiveState
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.limits import REPLICAS_OF_A_FILE_MAX
from scheduler.model.pods.pod import Pod
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.persistent_volume import PersistentVolume

SCALED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "Job")
#: Kinds of which the cluster alone knows what they are bound to.
BOUND: Final[dict[type, str]] = {
    Claim: "PersistentVolumeClaim",
    PersistentVolume: "PersistentVolume",
    ResourceClaim: "ResourceClaim",
}
#: What the API server, the kubelet or a scheduler wrote on a pod of the cluster.
_SERVER_FIELDS: Final = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """``planned`` are the pods to create; ``known`` are all objects by kind."""

    known: dict[str, list[Document]]
    planned: list[PlannedPod]
    notes: tuple[str, ...] = ()


def read_manifest(documents: list[Document], live: LiveState, replicas: int | None) -> Manifest:
    """What the documents create in addition to what exists."""
    documents = [_scaled(one, replicas) for one in documents]
    _check(documents, replicas)
    known, notes = by_kind(documents)
    planned: list[PlannedPod] = []
    for document in documents:
        space = text_of(document.metadata.get("namespace")) or live.namespace
        _check_namespace(document, space, live, known["Namespace"])
        if document.kind == "Pod":
            found, more = _of_pod(document, space, live)
        elif document.kind in EXPANDERS and document in known[document.kind]:
            found, more = _of_workload(document, space, live)
        else:
            continue
        planned += found
        notes += more
    return Manifest(known=_new(known, live), planned=planned, notes=tuple(notes))


def _new(known: dict[str, list[Document]], live: LiveState) -> dict[str, list[Document]]:
    """Without claims and volumes that exist: what they are bound to is only in the cluster."""
    items = (*live.state.storage, *live.state.dra)
    there = {(BOUND[type(item)], item.key) for item in items if type(item) in BOUND}

    def key(document: Document) -> tuple[str, str]:
        space = text_of(document.metadata.get("namespace")) or live.namespace
        is_global = document.kind == "PersistentVolume"
        return document.kind, document.name if is_global else f"{space}/{document.name}"

    return {kind: [one for one in found if key(one) not in there] for kind, found in known.items()}


def _check(documents: Iterable[Document], replicas: int | None) -> None:
    scaled = [one for one in documents if one.kind in SCALED]
    if replicas is not None and len(scaled) != 1:
        raise InputError(
            f"--replicas needs a manifest with one {', '.join(SCALED[:-1])} or {SCALED[-1]};"
            f" this one has {len(scaled) or 'none'}"
        )
    for document in documents:
        if document.kind == "Node":
            raise document.error("kind", "nodes come from the cluster; write --add-nodes SHAPE:N")
        if document.kind in (*SCALED, "Pod") and not document.name:
            raise document.error("metadata.name", "is missing; give the object a name")


def _scaled(document: Document, replicas: int | None) -> Document:
    if replicas is None or document.kind not in SCALED:
        return document
    if replicas > REPLICAS_OF_A_FILE_MAX:
        raise InputError(f"--replicas {replicas}: at most {REPLICAS_OF_A_FILE_MAX}")
    changed: Raw = {"replicas": replicas}
    if document.kind == "Job":
        # More completions than pods at a time start later.
        completions = document.spec.get("completions")
        wanted = completions if isinstance(completions, int) else replicas
        changed = {"parallelism": replicas, "completions": max(wanted, replicas)}
    return Document(
        place=document.place, raw={**document.raw, "spec": {**document.spec, **changed}}
    )


def _check_namespace(
    document: Document, space: str, live: LiveState, new: Iterable[Document]
) -> None:
    if document.kind not in EXPANDERS and document.kind != "Pod":
        return
    names = {one.name for one in live.state.namespaces} | {one.name for one in new}
    if live.state.namespaces and space not in names:
        raise document.error("metadata.namespace", f"namespace {space} does not exist; pass -n NS")


def _of_pod(document: Document, space: str, live: LiveState) -> tuple[list[PlannedPod], list[str]]:
    if any((pod.namespace, pod.name) == (space, document.name) for pod in live.state.pods):
        return [], [f"Pod {space}/{document.name} exists already, and is not created again"]
    meta = {k: v for k, v in document.metadata.items() if k not in _SERVER_FIELDS}
    spec = {k: v for k, v in document.spec.items() if k not in ("nodeName", "priority")}
    raw = {**document.raw, "metadata": meta, "spec": spec}
    return [bare(Document(place=document.place, raw=raw))], []


def _of_workload(
    document: Document, space: str, live: LiveState
) -> tuple[list[PlannedPod], list[str]]:
    pods = _pods_of(document, space, live.state.pods)
    planned = expanded(document, space)
    if not pods:
        return planned, []
    if document.kind == "StatefulSet":
        names = {pod.name for pod in pods}
        left = [pod for pod in planned if pod.name not in names]
    else:
        left = planned[len(pods) :]
    return left, [
        f"{document.kind} {space}/{document.name} exists with {counted(len(pods), 'pod')};"
        f" {len(left)} more would be created (a change of its template is not considered)"
    ]


def _pods_of(document: Document, space: str, pods: Iterable[Pod]) -> list[Pod]:
    target = Target(document.kind.lower(), document.name)
    return [
        pod
        for pod in pods
        if pod.namespace == space
        and not pod.is_terminal
        and not pod.is_deleting
        and target.has(pod)
    ]
