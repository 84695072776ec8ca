"""Workloads -> the pods that their controllers would create, named and labelled like theirs.

    StatefulSet   web-0, web-1 ...            one after the other unless Parallel
    Deployment    web-<template>-<suffix>     by way of its ReplicaSet
    ReplicaSet    web-<suffix>
    Job           task-<suffix>, or task-<index>-<suffix> when Indexed

Suffixes are random in a cluster; here they follow from the template, so that the same file gives
the same names every time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from gpuctl.manifests import Document, Raw, object_of, spelled, text_of
from scheduler.model import well_known
from scheduler.model.limits import MAP_INDEX_MAX, REPLICAS_OF_A_FILE_MAX

#: What Kubernetes writes random names with: no vowels, so no words.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_GENERATED_NAME_MAX: Final = 63
#: Coprime to the number of suffixes, so that it visits each of them once.
_STRIDE: Final = 6_700_417
REVISION: Final = "controller-revision-hash"
TEMPLATE: Final = "spec.template."


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is going to be created.

    ``raw`` is what is sent to the API server; ``name`` is what the pod is called afterwards;
    ``prefix`` is where it stands in its document. ``after`` is the pod that must run first.
    """

    document: Document
    raw: Raw
    name: str
    prefix: str = ""
    after: str | None = None


def expand(document: Document, namespace: str) -> list[Planned]:
    """The pods of one workload."""
    return EXPANDERS[document.kind](document, namespace)


def bare(document: Document) -> Planned:
    """A pod that is written as such."""
    raw = {**document.raw, "metadata": document.metadata, "spec": document.spec}
    name = text_of(document.metadata.get("name")) or _generated(document.name, raw, 0)
    return Planned(document=document, raw=raw, name=name)


def _stateful_set(document: Document, namespace: str) -> list[Planned]:
    spec, template = document.spec, _template(document)
    first = object_of(spec.get("ordinals")).get("start", 0)
    if isinstance(first, bool) or not isinstance(first, int) or not 0 <= first <= MAP_INDEX_MAX:
        raise document.mistake("spec.ordinals.start", f"{spelled(first)} is no ordinal")
    revision = f"{document.name}-{_digest(template)}"
    in_order = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    planned: list[Planned] = []
    for ordinal in range(first, first + _count(document, "replicas", 1)):
        name = f"{document.name}-{ordinal}"
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            well_known.STATEFULSET_INDEX: str(ordinal),
            REVISION: revision,
        }
        raw = _pod(document, template, namespace, {"name": name}, labels)
        raw["spec"] = _with_claims(document, raw["spec"], name)
        after = planned[-1].name if planned and in_order else None
        planned.append(_planned(document, raw, name, after))
    return planned


def _with_claims(document: Document, spec: Raw, pod_name: str) -> Raw:
    """The volumes that a StatefulSet adds for its volumeClaimTemplates."""
    added = [
        {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{pod_name}"}}
        for template in document.spec.get("volumeClaimTemplates") or ()
        if (claim := object_of(object_of(template).get("metadata")).get("name"))
    ]
    return {**spec, "volumes": [*(spec.get("volumes") or ()), *added]} if added else spec


def _deployment(document: Document, namespace: str) -> list[Planned]:
    digest = _digest(_template(document))
    return _replicas(document, namespace, ("ReplicaSet", f"{document.name}-{digest}"), digest)


def _replica_set(document: Document, namespace: str) -> list[Planned]:
    return _replicas(document, namespace, ("ReplicaSet", document.name), None)


def _replicas(
    document: Document, namespace: str, owner: tuple[str, str], digest: str | None
) -> list[Planned]:
    template = _template(document)
    labels = {} if digest is None else {well_known.POD_TEMPLATE_HASH: digest}
    return [
        _generate(document, template, namespace, owner, f"{owner[1]}-", labels, number)
        for number in range(_count(document, "replicas", 1))
    ]


def _job(document: Document, namespace: str) -> list[Planned]:
    spec, template = document.spec, _template(document)
    if spec.get("suspend") is True:
        return []
    parallelism = _count(document, "parallelism", 1)
    completions = _count(document, "completions", parallelism)
    is_indexed = spec.get("completionMode") == "Indexed"
    owner = ("Job", document.name)
    own = {"batch.kubernetes.io/job-name": document.name, "job-name": document.name}
    planned: list[Planned] = []
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
) -> Planned:
    raw = _pod(document, template, namespace, {"generateName": start}, labels, owner)
    return _planned(document, raw, _generated(start, template, number), None)


def _planned(document: Document, raw: Raw, name: str, after: str | None) -> Planned:
    return Planned(document=document, raw=raw, name=name, prefix=TEMPLATE, after=after)


def _pod(
    document: Document,
    template: Raw,
    namespace: str,
    called: dict[str, str],
    labels: dict[str, str],
    owner: tuple[str, str] | None = None,
) -> Raw:
    """The template as a pod of its controller."""
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
        raise document.mistake("spec.template", "is missing; it says what the pods look like")
    return template


def _count(document: Document, field: str, default: int) -> int:
    value = document.spec.get(field, default)
    most = REPLICAS_OF_A_FILE_MAX
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise document.mistake(
            f"spec.{field}", f"{spelled(value)} is not a number of pods; write 0 to {most}"
        )
    return value


def _digest(template: Raw) -> str:
    """A template's hash as Kubernetes writes it: up to ten letters and digits."""
    text = json.dumps(template, sort_keys=True, default=str).encode()
    return _safe(int.from_bytes(hashlib.sha256(text).digest()[:4]))


def _safe(number: int) -> str:
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def _generated(start: str, template: Any, number: int) -> str:
    """A generated name: cut to fit, and a suffix that no other number of this template gets."""
    text = json.dumps([start, template], sort_keys=True, default=str).encode()
    first = int.from_bytes(hashlib.sha256(text).digest()[:8])
    rest = (first + number * _STRIDE) % len(_ALPHABET) ** _SUFFIX_LENGTH
    suffix = ""
    for _ in range(_SUFFIX_LENGTH):
        rest, letter = divmod(rest, len(_ALPHABET))
        suffix += _ALPHABET[letter]
    return start[: _GENERATED_NAME_MAX - _SUFFIX_LENGTH] + suffix


EXPANDERS: Final[dict[str, Callable[[Document, str], list[Planned]]]] = {
    "StatefulSet": _stateful_set,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "Job": _job,
}
