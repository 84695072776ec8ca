"""The kind ``claims``: pods with ResourceClaims and extended resources, and devices that change.

The claims of templates are created with their pod, by the stand-in for kube-controller-manager
(``live/claim_controller``), which also deallocates what no pod uses.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tests.differential.generate.devices import Pool, Pools
from tests.differential.generate.draws import Draws
from tests.differential.generate.requests import CLASSES, claim_spec, device_class
from tests.differential.sequence import (
    CreatePod,
    DeleteObject,
    DeletePod,
    EndPod,
    NodeForm,
    Sequence,
    SetNode,
    SetObject,
    Step,
    Workload,
)

Json = dict[str, Any]

KIND: Final = "claims"
NAMESPACES: Final = ("red", "blue")
#: Requests with admin access need it.
LABELS: Final = {"resource.kubernetes.io/admin-access": "true"}
CLAIMS: Final = "resourceclaims"
GPUS: Final = "nvidia.com/gpu"
#: Extended resources that only DRA serves.
_BY_DRA: Final = ("example.com/widget", "deviceclass.resource.kubernetes.io/any")
_NODES: Final = (2, 3, 3, 4)
_STEPS: Final = (20, 32)


def sequence(seed: int) -> Sequence:
    """The sequence of a seed."""
    draws = Draws(f"{KIND} {seed}")
    names = tuple(f"n{number}" for number in range(1, draws.one(_NODES) + 1))
    nodes = {name: _node(draws, name) for name in names}
    pools = Pools(draws, names)
    objects = [device_class(draws, name) for name in CLASSES]
    objects += pools.objects()
    shared = tuple(f"shared-{number}" for number in range(1, draws.number(2, 3)))
    for name in shared:
        objects += [_claim(draws, namespace, name) for namespace in NAMESPACES]
    idle = _allocated(draws, pools.every)
    objects += idle
    known = [(one, name) for one in NAMESPACES for name in shared]
    known += [(one.manifest["metadata"]["namespace"], _name(one)) for one in idle]
    workloads = tuple(_workload(draws, tuple(known)) for _ in range(draws.number(4, 7)))
    steps = _Steps(draws, nodes, pools, shared, len(workloads)).take(draws.number(*_STEPS))
    return Sequence(
        kind=KIND,
        seed=seed,
        namespaces=dict.fromkeys(NAMESPACES, LABELS),
        nodes=tuple(nodes.values()),
        objects=tuple(objects),
        workloads=workloads,
        steps=steps,
    ).without_unused()


def _node(draws: Draws, name: str) -> NodeForm:
    """A node; some have a device plugin."""
    offers = {"cpu": "8", "memory": "8Gi", "pods": draws.one(("4", "110", "110"))}
    if draws.chance(0.3):
        offers[GPUS] = draws.one(("0", "1", "2"))
    return NodeForm(name=name, labels={"zone": draws.one(("z1", "z2"))}, offers=offers)


def _claim(draws: Draws, namespace: str, name: str) -> SetObject:
    """A claim that several pods can share."""
    meta = {"name": name, "namespace": namespace}
    return SetObject(CLAIMS, {"metadata": meta, "spec": claim_spec(draws, (1,))})


def _name(one: SetObject) -> str:
    return str(one.manifest["metadata"]["name"])


def _allocated(draws: Draws, pools: list[Pool]) -> list[SetObject]:
    """Claims that another scheduler allocated: each has a device of its own; some are reserved."""
    local = [one for one in pools if "nodeName" in one.where and one.whole_devices()]
    found = []
    for number, pool in enumerate(draws.some(local, min(len(local), draws.one((0, 0, 1, 2))))):
        names = set(pool.whole_devices())
        result = {"driver": pool.driver, "pool": pool.name, "device": draws.one(sorted(names))}
        field = {"key": "metadata.name", "operator": "In", "values": [pool.where["nodeName"]]}
        allocation = {
            "devices": {"results": [{"request": "one", **result}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            # Without it kube-scheduler cannot reserve the claim: it adds one, which is refused.
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        }
        status: Json = {"allocation": allocation}
        if draws.chance(0.4):
            status["reservedFor"] = [{"resource": "pods", "name": "other", "uid": "other"}]
        request = {"name": "one", "exactly": {"deviceClassName": "any"}}
        manifest = {
            "metadata": {"name": f"idle-{number}", "namespace": draws.one(NAMESPACES)},
            "spec": {"devices": {"requests": [request]}},
            "status": status,
        }
        found.append(SetObject(CLAIMS, manifest))
    return found


def _workload(draws: Draws, known: tuple[tuple[str, str], ...]) -> Workload:
    """A pod template with claims, extended resources or both; ``known`` claims can be named."""
    namespace, name = draws.one(known)
    requests = {"cpu": "100m"}
    if draws.chance(0.2):
        # Not with claims: kube-scheduler cannot bind such a pod to a node whose device plugin
        # serves the resource (``patchPodExtendedResourceClaimStatus``).
        requests[GPUS] = draws.one(("1", "1", "2"))
        return Workload(namespace=namespace, requests=requests)
    if draws.chance(0.15):
        requests[draws.one(_BY_DRA)] = draws.one(("1", "1", "2"))
    entries: list[Json] = []
    if draws.chance(0.35):
        entries.append({"name": "s", "resourceClaimName": name})
    templates: Json = {}
    if draws.chance(0.4) or not (entries or len(requests) > 1):
        for number in range(draws.one((1, 1, 1, 2))):
            templates[f"c{number}"] = claim_spec(draws)
            entry = {"name": f"c{number}", "resourceClaimTemplateName": f"c{number}"}
            entries.insert(draws.number(0, len(entries)), entry)
    spec: Json = {"resourceClaims": entries} if entries else {}
    if draws.chance(0.1):
        spec["nodeSelector"] = {"zone": draws.one(("z1", "z2"))}
    return Workload(namespace=namespace, requests=requests, spec=spec, templates=templates)


class _Steps:
    """The steps, with what can be there."""

    def __init__(
        self,
        draws: Draws,
        nodes: dict[str, NodeForm],
        pools: Pools,
        shared: tuple[str, ...],
        workloads: int,
    ) -> None:
        self._draws = draws
        self._nodes = dict(nodes)
        self._pools = pools
        self._shared = shared
        self._workloads = workloads
        self._pods: list[str] = []
        self._created = 0
        #: Steps that follow one by one, with pods in between.
        self._waiting: list[Step] = []

    def take(self, count: int) -> tuple[Step, ...]:
        """About so many steps."""
        found: list[Step] = []
        while len(found) < count:
            found += self._next()
        return tuple(found)

    def _next(self) -> list[Step]:
        kind = self._draws.number(0, 99)
        if kind >= 42 or len(self._pods) < 2:
            return [self._create()]
        if kind < 17:
            name = self._pods.pop(self._draws.number(0, len(self._pods) - 1))
            return [EndPod(name) if kind < 3 else DeletePod(name)]
        if self._waiting:
            return [self._waiting.pop(0)]
        if kind < 29:
            return self._changed_pool()
        return self._other(kind)

    def _create(self) -> Step:
        self._created += 1
        self._pods.append(f"p{self._created}")
        return CreatePod(self._pods[-1], self._draws.number(0, self._workloads - 1))

    def _changed_pool(self) -> list[Step]:
        steps: list[Step] = list(self._pools.change())
        if self._draws.chance(0.5):
            return steps
        self._waiting = steps[1:]
        return steps[:1]

    def _other(self, kind: int) -> list[Step]:
        draws = self._draws
        if kind < 33:
            return [_taint_rule(draws)]
        if kind < 35:
            return [DeleteObject("devicetaintrules", "rule")]
        if kind < 37:
            name = draws.one(CLASSES)
            self._waiting = [device_class(draws, name)]
            return [DeleteObject("deviceclasses", name)]
        if kind < 40 and self._shared:
            namespace, name = draws.one(NAMESPACES), draws.one(self._shared)
            return [DeleteObject(CLAIMS, f"{namespace}/{name}"), _claim(draws, namespace, name)]
        name = draws.one(tuple(self._nodes))
        form = _node(draws, name)
        same_pods = {**form.offers, "pods": self._nodes[name].offers["pods"]}
        self._nodes[name] = msgspec.structs.replace(form, offers=same_pods)
        return [SetNode(self._nodes[name])]


def _taint_rule(draws: Draws) -> SetObject:
    selector: Json = {"driver": draws.one(("gpu.example.com", "nic.example.com"))}
    if draws.chance(0.7):
        selector["pool"] = draws.one(("n1-gpu", "n2-gpu", "n1-cards", "everywhere"))
    taint = {"key": "broken", "effect": draws.one(("NoSchedule", "NoExecute"))}
    spec = {"deviceSelector": selector, "taint": taint}
    return SetObject("devicetaintrules", {"metadata": {"name": "rule"}, "spec": spec})
