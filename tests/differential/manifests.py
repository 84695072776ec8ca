"""Sequences as objects of the API: what the live run sends, and what the API server makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler.model import well_known
from tests.differential.sequence import PREEMPTING, NodeForm, Workload

Json = dict[str, Any]

#: Priority classes. Pods of the first ones preempt no others; ``plain`` is the default.
PRIORITIES: Final = {"plain": 0, "low": 10, "high": 1000, "p5": 5, "p50": 50, "p500": 500}
IMPOSSIBLE: Final = "Never"
PREEMPTS: Final = "PreemptLowerPriority"
_IGNORED: Final = "DuringSchedulingIgnoredDuringExecution"
_HOSTNAME: Final = "kubernetes.io/hostname"


def priority_class(name: str) -> Json:
    """One of the priority classes."""
    return {
        "metadata": {"name": name},
        "value": PRIORITIES[name],
        "globalDefault": name == "plain",
        "preemptionPolicy": PREEMPTS if name in PREEMPTING else IMPOSSIBLE,
    }


def namespace(name: str, labels: Mapping[str, str]) -> Json:
    """A Namespace; the API server adds the label with its name."""
    named = {"kubernetes.io/metadata.name": name}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**labels, **named}},
    }


def node(form: NodeForm) -> Json:
    """A Node without a kubelet; its label with the host name is its own name unless given."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": form.name, "labels": {_HOSTNAME: form.name, **form.labels}},
        "spec": {"unschedulable": form.cordoned, "taints": [_taint(text) for text in form.taints]},
        "status": {"capacity": form.offers, "allocatable": form.offers},
    }


def _taint(text: str) -> Json:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod(name: str, workload: Workload) -> Json:
    """A Pod as a client creates it."""
    container: Json = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"requests": workload.requests, "limits": _limits(workload.requests)},
    }
    if workload.ports:
        container["ports"] = list(workload.ports)
    spec: Json = {
        "schedulerName": well_known.SCHEDULER_NAME,
        "containers": [container],
        **_long(workload.spec),
    }
    if workload.priority:
        spec["priorityClassName"] = workload.priority
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": workload.namespace, "labels": workload.labels},
        "spec": spec,
    }


def foreign(name: str, workload: Workload, node_name: str) -> Json:
    """A Pod that another scheduler placed."""
    body = pod(name, workload)
    placed = {"schedulerName": "other-scheduler", "nodeName": node_name}
    return {**body, "spec": {**body["spec"], **placed}}


def gated(body: Json) -> Json:
    """The pod with a scheduling gate."""
    return {**body, "spec": {**body["spec"], "schedulingGates": [{"name": "example.com/claims"}]}}


def ephemeral_claims(body: Json, uid: str) -> list[Json]:
    """The claims of a pod's generic ephemeral volumes, as kube-controller-manager creates them.

    A volume that is named ``late`` has no claim yet; the claim of one that is named ``taken``
    belongs to another pod.
    """
    meta = body["metadata"]
    return [
        {
            "metadata": {
                "name": f"{meta['name']}-{one['name']}",
                "namespace": meta["namespace"],
                "ownerReferences": [_owner("other", "other") if one["name"] == "taken" else own],
            },
            "spec": one["ephemeral"]["volumeClaimTemplate"]["spec"],
            "status": {"phase": "Pending"},
        }
        for own in [_owner(meta["name"], uid)]
        for one in body["spec"].get("volumes", ())
        if "ephemeral" in one and one["name"] != "late"
    ]


def _owner(name: str, uid: str) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}


def start_time(name: str) -> str:
    """When a pod with this name in the sequence started: no two at the same time, in an order
    that is not that of their creation.
    """
    minute = int(name[1:]) * 37 % 997
    return f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z"


def stored(manifest: Json) -> Json:
    """Any other object as it is stored: with a uid, a bound volume with that of its claim."""
    found = {**manifest, "metadata": {"uid": key_of(manifest), **manifest["metadata"]}}
    claim = manifest.get("spec", {}).get("claimRef")
    if not claim:
        return found
    uid = f"{claim['namespace']}/{claim['name']}" if is_bound(manifest) else None
    return with_claim_uid(found, uid)


def is_bound(volume: Json) -> bool:
    """Whether a volume with a claim is bound to it; one that is not is kept for the claim."""
    return bool(volume["status"]["phase"] == "Bound")


def with_claim_uid(volume: Json, uid: str | None) -> Json:
    """A volume whose claim has this uid, or none."""
    claim = {key: value for key, value in volume["spec"]["claimRef"].items() if key != "uid"}
    if uid is not None:
        claim["uid"] = uid
    return {**volume, "spec": {**volume["spec"], "claimRef": claim}}


def key_of(manifest: Json) -> str:
    """The key of an object: its name, or ``namespace/name``."""
    meta = manifest["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])


def _limits(requests: Mapping[str, str]) -> Json:
    """Extended resources need a limit."""
    return {name: amount for name, amount in requests.items() if "/" in name}


def _long(spec: Json) -> Json:
    """The spec with the affinities' full field names."""
    affinity = {
        kind: {field + _IGNORED: terms for field, terms in rules.items()}
        for kind, rules in spec.get("affinity", {}).items()
    }
    return {**spec, "affinity": affinity} if affinity else dict(spec)


def admitted(body: Json) -> Json:
    """The pod as the API server stores it, as far as schedulers read it: with its priority, and
    with matchLabelKeys merged into the label selectors.
    """
    meta, spec = body["metadata"], body["spec"]
    name = spec.get("priorityClassName", "plain")
    policy = PREEMPTS if name in PREEMPTING else IMPOSSIBLE
    changed = {**spec, "priority": PRIORITIES[name], "preemptionPolicy": policy}
    labels = meta["labels"]
    if "affinity" in spec:
        changed["affinity"] = {
            kind: {field: [_merged(one, labels) for one in terms] for field, terms in rules.items()}
            if kind != "nodeAffinity"
            else rules
            for kind, rules in spec["affinity"].items()
        }
    if "topologySpreadConstraints" in spec:
        constraints = [_merged(one, labels) for one in spec["topologySpreadConstraints"]]
        changed["topologySpreadConstraints"] = constraints
    return {**body, "metadata": {"uid": meta["name"], **meta}, "spec": changed}


def _merged(term: Json, labels: Mapping[str, str]) -> Json:
    if "podAffinityTerm" in term:
        return {**term, "podAffinityTerm": _merged(term["podAffinityTerm"], labels)}
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field, ())
        if key in labels
    ]
    if not added or "labelSelector" not in term:
        return term
    selector = term["labelSelector"]
    expressions = [*selector.get("matchExpressions", ()), *added]
    return {**term, "labelSelector": {**selector, "matchExpressions": expressions}}
