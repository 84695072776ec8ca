"""The pods that controllers would create in place of pods that leave a node.

The content comes from the owner's template. Where the owner has another kind, or cannot be read, it
comes from the pod itself, with what the webhook changed set back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from gpuctl.simulate.manifests import Document, Raw, object_of, text_of, without_nulls
from gpuctl.simulate.workload_expansion import PlannedPod, generated_name, with_claims
from scheduler.model import well_known
from scheduler.model.pods.original_request import memory_given
from scheduler.model.pods.pod import Pod
from scheduler.watch.client import ApiError, Client, Unreachable

PATHS: Final = {
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets/{}",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets/{}",
    "Job": "/apis/batch/v1/namespaces/{}/jobs/{}",
}
POD_PATH: Final = "/api/v1/namespaces/{}/pods/{}"
PLACE: Final = "the cluster"
#: Requests at a time.
PARALLEL_MAX: Final = 16
#: The webhook's and the scheduler's records, which a new pod does not have.
_RECORDS: Final = (
    well_known.FALLBACK,
    well_known.ORIGINAL,
    well_known.TIER_NODES,
    well_known.MEMORY_GIVEN,
    well_known.MAP_REQUEST,
)
_FIELDS: Final = ("initContainers", "containers")
_SIDES: Final = ("limits", "requests")


async def read_planned(client: Client, pods: Iterable[Pod]) -> dict[str, PlannedPod]:
    """The pod that is created in place of each, by uid; without those that cannot be read."""
    limit = asyncio.Semaphore(PARALLEL_MAX)

    async def get(path: str) -> Raw | None:
        async with limit:
            try:
                found = msgspec.json.decode(await client.request("GET", path))
            except (ApiError, Unreachable, msgspec.MsgspecError):
                return None
        raw: Raw = object_of(without_nulls(found))
        return raw

    pods = [pod for pod in pods if pod.owner is not None]
    paths = {pod.uid: _owner_path(pod) for pod in pods}
    known = [path for path in dict.fromkeys(paths.values()) if path]
    owners = dict(zip(known, await asyncio.gather(*map(get, known)), strict=True))
    others = [pod for pod in pods if not _template(owners.get(paths[pod.uid]))]
    own = await asyncio.gather(*(get(POD_PATH.format(p.namespace, p.name)) for p in others))
    planned = {
        pod.uid: from_pod(pod, raw) for pod, raw in zip(others, own, strict=True) if raw is not None
    }
    for pod in pods:
        owner = owners.get(paths[pod.uid])
        if owner is not None and pod.uid not in planned and _template(owner):
            planned[pod.uid] = from_owner(pod, owner)
    return planned


def _owner_path(pod: Pod) -> str:
    owner = pod.owner
    path = PATHS.get(owner.word, "") if owner is not None else ""
    return path.format(pod.namespace, owner.name) if path and owner is not None else ""


def _template(owner: Raw | None) -> Raw:
    return object_of(object_of(object_of(owner).get("spec")).get("template"))


def from_owner(pod: Pod, owner: Raw) -> PlannedPod:
    """The pod of its owner's template."""
    template = _template(owner)
    spec = object_of(template.get("spec"))
    notes = dict(object_of(object_of(template.get("metadata")).get("annotations")))
    assert pod.owner is not None
    document = Document(place=PLACE, raw={**owner, "kind": pod.owner.kind})
    if pod.owner.kind == "StatefulSet":
        spec = with_claims(document, spec, pod.name)
    if index := pod.labels.get(well_known.JOB_INDEX):
        notes[well_known.JOB_INDEX] = index
    return _planned(pod, document, notes, spec)


def from_pod(pod: Pod, raw: Raw) -> PlannedPod:
    """The pod as it is, without what admission and Binding wrote."""
    meta, spec = object_of(raw.get("metadata")), dict(object_of(raw.get("spec")))
    notes = object_of(meta.get("annotations"))
    kept = {
        key: value
        for key, value in notes.items()
        if key not in _RECORDS and not well_known.is_protected(key)
    }
    for field in ("nodeName", "priority", "preemptionPolicy"):
        spec.pop(field, None)
    record = _record(text_of(notes.get(well_known.ORIGINAL)))
    changed: dict[str, Raw] = {name: {} for name in memory_given(pod)} | record
    for field in _FIELDS:
        if isinstance(spec.get(field), list):
            spec[field] = [_restored(one, changed) for one in spec[field]]
    return _planned(pod, Document(place=PLACE, raw={**raw, "kind": "Pod"}), kept, spec)


def _record(text: str) -> dict[str, Raw]:
    """Container -> its requests and limits of devices before the fallback."""
    try:
        found = msgspec.json.decode(text) if text else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return {str(name): object_of(one) for name, one in object_of(found).items()}


def _restored(container: Any, record: dict[str, Raw]) -> Any:
    name = text_of(object_of(container).get("name"))
    if name not in record:
        return container
    held = object_of(container.get("resources"))
    sides = {
        side: {
            **{
                k: v
                for k, v in object_of(held.get(side)).items()
                if not well_known.is_gpu_device(k)
            },
            **object_of(record[name].get(side)),
        }
        for side in _SIDES
    }
    return {**container, "resources": {**held, **sides}}


def _planned(pod: Pod, document: Document, notes: Raw, spec: Raw) -> PlannedPod:
    """The pod with the labels and the owner of the one that leaves."""
    owner = pod.owner
    assert owner is not None
    keeps_name = owner.kind == "StatefulSet"
    start = pod.name.rpartition("-")[0] + "-"
    name = pod.name if keeps_name else generated_name(start, [pod.uid], 0)
    reference = {
        "apiVersion": text_of(document.raw.get("apiVersion")) or "v1",
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }
    if document.kind == "Pod":
        found = object_of(document.raw.get("metadata")).get("ownerReferences") or ()
        reference = next((one for one in found if object_of(one).get("controller")), reference)
    meta = {
        **({"name": name} if keeps_name else {"generateName": start}),
        "namespace": pod.namespace,
        "labels": dict(pod.labels),
        "annotations": notes,
        "ownerReferences": [reference],
    }
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": dict(spec)}
    return PlannedPod(document=document, raw=raw, name=name)
