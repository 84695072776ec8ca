"""Expands workloads into the pods that their controllers would create, with names and labels.

    StatefulSet   web-0, web-1 ...            sequentially unless Parallel
    Deployment    web-<template>-<suffix>     through its ReplicaSet
    ReplicaSet    web-<suffix>
    Job           task-<suffix>, or task-<index>-<suffix> if Indexed

Suffixes are random in a cluster. Here they are derived from the template, so that the same file
always gives the same names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from gpuctl.simulate.manifests import Document, Raw, object_of, shown_value, text_of
from scheduler.model import well_known
from scheduler.model.limits import MAP_INDEX_MAX, REPLICAS_OF_A_FILE_MAX

#: The alphabet of Kubernetes' random names: without vowels, so that no words appear.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_GENERATED_NAME_MAX: Final = 63
#: Coprime to the number of suffixes, so that the steps visit each suffix once.
_STRIDE: Final = 6_700_417
REVISION: Final = "controller-revision-hash"
TEMPLATE: Final = "spec.template."


class PlannedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to create.

    ``raw`` is the body of the request, ``name`` the final name of the pod, ``prefix`` its path in
    the document. ``after`` names the pod that must run first.
    """

    document: Document
    raw: Raw
    name: str
    prefix: str = ""
    after: str | None = None

    @property
    def is_bare(self) -> bool:
        """Whether the input has the pod itself."""
        return self.document.kind == "Pod"


def expand(document: Document, namespace: str) -> list[PlannedPod]:
    """The pods of one workload."""
    return EXPANDERS[document.kind](document, namespace)


def bare(document: Document) -> PlannedPod:
    """The pod of a Pod object."""
    raw = {**document.raw, "metadata": document.metadata, "spec": document.spec}
    name = text_of(document.metadata.get("name")) or generated_name(document.name, raw, 0)
    return PlannedPod(document=document, raw=raw, name=name)


def _stateful_set(document: Document, namespace: str) -> list[PlannedPod]:
    spec, template = document.spec, _template(document)
    first = object_of(spec.get("ordinals")).get("start", 0)
    if isinstance(first, bool) or not isinstance(first, int) or not 0 <= first <= MAP_INDEX_MAX:
        raise document.error("spec.ordinals.start", f"{shown_value(first)} is no ordinal")
    revision = f"{document.name}-{_digest(template)}"
    in_order = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    planned: list[PlannedPod] = []
    for ordinal in range(first, first + _count(document, "replicas", 1)):
        name = f"{document.name}-{ordinal}"
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            well_known.STATEFULSET_INDEX: str(ordinal),
            REVISION: revision,
        }
        raw = _pod(document, template, namespace, {"name": name}, labels)
        raw["spec"] = with_claims(document, raw["spec"], name)
        after = planned[-1].name if planned and in_order else None
        planned.append(_planned(document, raw, name, after))
    return planned


def with_claims(document: Document, spec: Raw, pod_name: str) -> Raw:
    """The volumes that a StatefulSet adds for its volumeClaimTemplates."""
    added = [
        {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{pod_name}"}}
        for template in document.spec.get("volumeClaimTemplates") or ()
        if (claim := object_of(object_of(template).get("metadata")).get("name"))
    ]
    return {**spec, "volumes": [*(spec.get("volumes") or ()), *added]} if added else spec


def _deployment(document: Document, namespace: str) -> list[PlannedPod]:
    digest = _digest(_template(document))
    return _replicas(document, namespace, ("ReplicaSet", f"{document.name}-{digest}"), digest)


def _replica_set(document: Document, namespace: str) -> list[PlannedPod]:
    return _replicas(document, namespace, ("ReplicaSet", document.name), None)


def _replicas(
    document: Document, namespace: str, owner: tuple[str, str], digest: str | None
) -> list[PlannedPod]:
    template = _template(document)
    labels = {} if digest is None else {well_known.POD_TEMPLATE_HASH: digest}
    return [
        _generate(document, template, namespace, owner, f"{owner[1]}-", labels, number)
        for number in range(_count(document, "replicas", 1))
    ]


def _job(document: Document, namespace: str) -> list[PlannedPod]:
    spec, template = document.spec, _template(document)
    if spec.get("suspend") is True:
        return []
    parallelism = _count(document, "parallelism", 1)
    completions = _count(document, "completions", parallelism)
    is_indexed = spec.get("completionMode") == "Indexed"
    owner = ("Job", document.name)
    own = {"batch.kubernetes.io/job-name": document.name, "job-name": document.name}
    planned: list[PlannedPod] = []
    for number in range(min(parallelism, completions)):
        labels = {**own, well_known.JOB_INDEX: str(number)} if is_indexed else own
        start = f"{document.name}-{number}-" if is_indexed else f"{document.name}-"
        planned.append(_generate(document, template, namespace, owner, start, labels, number))
    return planned


def _generate(
    document: Document,
    template: Raw,
    namespace: str,
    owner: tuple[str, str],
    start: str,
    labels: dict[str, str],
    number: int,
) -> PlannedPod:
    raw = _pod(document, template, namespace, {"generateName": start}, labels, owner)
    return _planned(document, raw, generated_name(start, template, number), None)


def _planned(document: Document, raw: Raw, name: str, after: str | None) -> PlannedPod:
    return PlannedPod(document=document, raw=raw, name=name, prefix=TEMPLATE, after=after)


def _pod(
    document: Document,
    template: Raw,
    namespace: str,
    called: dict[str, str],
    labels: dict[str, str],
    owner: tuple[str, str] | None = None,
) -> Raw:
    """A pod with the template's content, owned by the controller."""
    kind, name = owner or (document.kind, document.name)
    meta = object_of(template.get("metadata"))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{key: meta[key] for key in ("annotations", "finalizers") if key in meta},
            **called,
            "namespace": namespace,
            "labels": {**object_of(meta.get("labels")), **labels},
            "ownerReferences": [
                {
                    "apiVersion": document.api_version,
                    "kind": kind,
                    "name": name,
                    "uid": f"{kind}/{namespace}/{name}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": dict(object_of(template.get("spec"))),
    }


def _template(document: Document) -> Raw:
    template = document.spec.get("template")
    if not isinstance(template, dict):
        raise document.error("spec.template", "is missing; add the template of the pods")
    return template


def _count(document: Document, field: str, default: int) -> int:
    value = document.spec.get(field, default)
    most = REPLICAS_OF_A_FILE_MAX
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise document.error(
            f"spec.{field}", f"{shown_value(value)} is not a number of pods; write 0 to {most}"
        )
    return value


def _digest(template: Raw) -> str:
    """A template's hash in the format of Kubernetes: up to ten letters and digits."""
    text = json.dumps(template, sort_keys=True, default=str).encode()
    return _safe(int.from_bytes(hashlib.sha256(text).digest()[:4]))


def _safe(number: int) -> str:
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def generated_name(start: str, template: Any, number: int) -> str:
    """A generated name: truncated prefix, and a suffix unique to this number of the template."""
    text = json.dumps([start, template], sort_keys=True, default=str).encode()
    first = int.from_bytes(hashlib.sha256(text).digest()[:8])
    rest = (first + number * _STRIDE) % len(_ALPHABET) ** _SUFFIX_LENGTH
    suffix = ""
    for _ in range(_SUFFIX_LENGTH):
        rest, letter = divmod(rest, len(_ALPHABET))
        suffix += _ALPHABET[letter]
    return start[: _GENERATED_NAME_MAX - _SUFFIX_LENGTH] + suffix


EXPANDERS: Final[dict[str, Callable[[Document, str], list[PlannedPod]]]] = {
    "StatefulSet": _stateful_set,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "Job": _job,
}
