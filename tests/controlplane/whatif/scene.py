"""One random case on the real API server: the question, and then what really happens.

After every step the scene waits until the cluster is quiet: the leader has seen every object, and
decides for no waiting pod that it may start.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuctl import snapshots
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.resource_slice import ResourceSlice
from scheduler.model.volumes.claim import Claim
from scheduler.report.decisions.api_types import Snapshot
from tests.controlplane.dra_objects import make
from tests.controlplane.whatif.cases import COUNT, DEVICE_COUNTS, GPU, Case
from tests.controlplane.whatif.cluster_objects import (
    SLICES,
    VOLUMES,
    WorkloadVolume,
    devices_spec,
    devices_template,
    slice_of,
)
from tests.controlplane.workloads import PATHS, Json, Watcher, as_created, fetch, node_of
from tests.unit.gpuctl.cli import gpuctl
from tools.controlplane import ControlPlane, FakeNode, add_nodes, wait_until
from tools.controlplane.client import ApiError
from tools.product import Product

QUIET_S = 120.0
CORDON = "node.kubernetes.io/unschedulable"
Places = Counter[str]


class Scene:
    """The namespace and the nodes of one case."""

    def __init__(self, plane: ControlPlane, product: Product, here: Watcher, case: Case) -> None:
        self.case = case
        #: The paths of cluster-wide objects, nodes last.
        self.made: list[str] = []
        self._plane = plane
        self._product = product
        self._here = here
        self._expected: dict[str, int] = {}
        self._bare: set[str] = set()
        self._devices = dict(case.devices)
        self._budgets = f"/apis/policy/v1/namespaces/{here.namespace}/poddisruptionbudgets"
        self._claims = f"/api/v1/namespaces/{here.namespace}/persistentvolumeclaims"

    # --- before ----------------------------------------------------------------------------------

    def set_up(self) -> None:
        """The cluster before the question."""
        self._add(self.case.nodes)
        for count in DEVICE_COUNTS:
            name, spec = devices_template(count), {"spec": devices_spec(count)}
            make(self._here.client, self._here.namespace, "resourceclaimtemplates", name, spec)
        for one in self.case.data:
            self._store(one)
        for body in self.case.budgets:
            self._here.client.create(self._budgets, body)
        for body in self.case.before:
            self._create(body)
            self.wait_quiet(f"after {body['metadata']['name']}")

    def _store(self, data: WorkloadVolume) -> None:
        """Create a claim, with its volume: then it is bound."""
        client = self._here.client
        if data.volume is not None:
            self.made.append(f"{VOLUMES}/{data.volume['metadata']['name']}")
            client.create(VOLUMES, as_created(data.volume))
        body = as_created(data.claim)
        body["metadata"]["namespace"] = self._here.namespace
        client.create(self._claims, body)
        if data.volume is not None:
            client.wait_for(
                f"{self._claims}/{body['metadata']['name']}",
                lambda seen: seen["status"].get("phase") == "Bound",
                what="the claim to be bound",
            )

    def ask(self, folder: Path, *, of_leader: bool) -> Json:
        """What gpuctl says, from the leader's state or from the objects of the API."""
        file = folder / "manifest.yaml"
        file.write_text(yaml.safe_dump(self.case.manifest))
        by: tuple[str, ...] = ("--server", f"http://127.0.0.1:{self._product.decisions_port}")
        if not of_leader:
            by = ("--no-forward", "--config", str(self._product.directory / "scheduler.yaml"))
        words = ("-f", str(file), "-n", self._here.namespace, "-o", "json", *self.case.change)
        result = gpuctl("whatif", *words, *by, "--kubeconfig", str(self._plane.kubeconfig))
        assert result.status in (0, 2), result.err
        found: Json = json.loads(result.out)
        assert found["allStart"] is (result.status == 0)
        return found

    # --- what happens ----------------------------------------------------------------------------

    def change(self, answer: Json) -> None:
        """Make the change: add, cordon, evict in the order of the answer, and partition."""
        self._add(self._like(one["like"], one["node"]) for one in answer.get("added", ()))
        self.wait_quiet("after nodes were added")
        words = self.case.change
        drained = [name for option, name in pairwise(words) if option == "--drain"]
        for name in (*drained, *self.case.layouts):
            self._cordon(name)
        for name in drained:
            self._evict(name, answer)
        for name, layout in self.case.layouts.items():
            if self._evict(name, answer):
                self._partition(name, layout)
            self._uncordon(name)

    def start(self) -> None:
        """Create what the question was about."""
        self._create(self.case.manifest)
        self.wait_quiet("after the manifest")

    def places(self, owner: str) -> Places:
        """The nodes of the pods of one workload; empty names are pods that wait."""
        return Counter(node_of(one) for one in self._pods_of(owner))

    def codes(self, owner: str) -> Counter[tuple[str, ...]]:
        """The reason codes of a workload's pods that wait."""
        names = {one["metadata"]["name"] for one in self._pods_of(owner)}
        return Counter(
            tuple(sorted({refusal.code for refusal in one.outcome.refusals}))
            for one in self._snapshot().pending
            if one.namespace == self._here.namespace and one.pod in names
        )

    def waiting(self) -> int:
        """The number of pods that wait, without those of the manifest."""
        others = (one for one in self._here.pods() if _owner(one) != "asked")
        return sum(not node_of(one) for one in others)

    def waiting_names(self) -> set[str]:
        """The names of the pods that wait."""
        return {one["metadata"]["name"] for one in self._here.pods() if not node_of(one)}

    def preempted(self, left_out: Collection[str] = ()) -> Counter[str]:
        """The workloads of all pods that were preempted until now, without some pods."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self._here.namespace}/events"
        items = self._here.client.get(path)["items"]
        names = {one["regarding"]["name"] for one in items if one["reason"] == "Preempted"}
        return Counter(map(owner_of_name, names.difference(left_out)))

    def places_by_owner(self) -> Counter[tuple[str, str]]:
        """The workload and the node of every pod that has one."""
        return Counter((_owner(one), node_of(one)) for one in self._here.pods() if node_of(one))

    # --- steps -----------------------------------------------------------------------------------

    def _add(self, nodes: Iterable[FakeNode]) -> None:
        added = list(nodes)
        self.made += [f"/api/v1/nodes/{one.name}" for one in added]
        add_nodes(self._here.client, added)
        for one in added:
            if count := self._devices.get(one.name):
                body = as_created(slice_of(one.name, count))
                self.made.insert(0, f"{SLICES}/{body['metadata']['name']}")
                self._here.client.create(SLICES, body)

    def _like(self, like: str, name: str) -> FakeNode:
        model = self.case.node(like)
        if like in self._devices:
            self._devices[name] = self._devices[like]
        return FakeNode(
            name=name, gpus=model.gpus, mig=model.mig, labels=model.labels, taints=model.taints
        )

    def _create(self, body: Json) -> None:
        self._here.create(body)
        spec = body["spec"]
        count = spec.get("replicas", spec.get("parallelism", 1))
        self._expected[body["metadata"]["name"]] = count
        if body["kind"] == "Pod":
            self._bare.add(body["metadata"]["name"])

    def _cordon(self, name: str) -> None:
        path = f"/api/v1/nodes/{name}"
        self._here.client.patch(path, {"spec": {"unschedulable": True}})
        self._here.client.wait_for(
            path, lambda seen: CORDON in _taints(seen), what=f"{name} to be cordoned"
        )
        self.wait_quiet(f"after the cordon of {name}")

    def _uncordon(self, name: str) -> None:
        path = f"/api/v1/nodes/{name}"
        self._here.client.patch(path, {"spec": {"unschedulable": None}})
        self._here.client.wait_for(
            path, lambda seen: CORDON not in _taints(seen), what=f"{name} to be uncordoned"
        )
        self.wait_quiet(f"after {name} came back")

    def _evict(self, name: str, answer: Json) -> bool:
        """Evict what leaves a node; returns whether all did."""
        is_empty = True
        for move in answer.get("moves", ()):
            if move["from"] != name:
                continue
            if move.get("stays"):
                is_empty = False
                self._stays(move)
                continue
            self._here.evict(move["pod"])
            self.wait_quiet(f"after the eviction of {move['pod']}")
        return is_empty

    def _stays(self, move: Json) -> None:
        """A budget refuses; for a pod without a controller there is nothing to try."""
        if move["codes"] == ["NO_CONTROLLER"]:
            assert "ownerReferences" not in self._pod(move["pod"])["metadata"]
            return
        assert move["codes"] == ["DISRUPTION_BUDGET"]
        with pytest.raises(ApiError) as refused:
            self._here.evict(move["pod"])
        assert refused.value.status == HTTPStatus.TOO_MANY_REQUESTS

    def _partition(self, name: str, layout: dict[str, int]) -> None:
        """What the device plugin advertises after mig-manager was there."""
        model = self.case.node(name)
        gpus = int(model.labels[COUNT])
        new = {f"nvidia.com/mig-{one}": str(gpus * count) for one, count in layout.items()}
        amounts: dict[str, str | None] = {f"nvidia.com/mig-{one}": None for one in model.mig}
        amounts |= {GPU: "0", **new}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        self._here.client.patch(f"/api/v1/nodes/{name}/status", status)

    # --- quiet -----------------------------------------------------------------------------------

    def wait_quiet(self, when: str) -> None:
        """Wait until nothing more happens by itself."""
        seen: list[str] = [""]

        def is_quiet() -> bool:
            seen[0] = next(self._unrest(), "")
            return not seen[0]

        what = f"{self._here.namespace} to be quiet {when}"
        wait_until(is_quiet, what=what, timeout_s=QUIET_S, last=lambda: seen[0])

    def _unrest(self) -> Iterator[str]:
        """What still happens."""
        pods = self._here.pods()
        for item in pods:
            if "deletionTimestamp" in item["metadata"]:
                yield f"{item['metadata']['name']} is being deleted"
            if node_of(item) and not _is_ready(item):
                yield f"{item['metadata']['name']} is not ready"
        counts = Counter(map(_owner, pods))
        # A pod without a controller may have been preempted.
        gone = {name for name in self._bare if name not in counts}
        if counts != Counter({k: v for k, v in self._expected.items() if k not in gone}):
            yield f"pods {dict(counts)}, expected {self._expected}"
        yield from self._of_budgets(pods)
        taken = self._snapshot()
        yield from self._of_claims(taken)
        yield from self._of_leader(taken, pods)

    def _of_budgets(self, pods: list[Json]) -> Iterator[str]:
        for one in self._here.client.get(self._budgets)["items"]:
            name, status = one["metadata"]["name"], one.get("status", {})
            healthy = sum(_owner(item) == name and bool(node_of(item)) for item in pods)
            if status.get("currentHealthy") != healthy or status.get("disruptedPods"):
                yield f"budget {name} has {status}, {healthy} are healthy"

    def _of_claims(self, taken: Snapshot) -> Iterator[str]:
        """The leader knows the claims and the devices as they are."""
        get, space = self._here.client.get, self._here.namespace
        stored = {one["metadata"]["name"]: one for one in get(self._claims)["items"]}
        seen = [one for one in taken.state.storage if isinstance(one, Claim)]
        volumes = {one.name: one.volume_name for one in seen if one.namespace == space}
        if volumes != {name: one["spec"].get("volumeName", "") for name, one in stored.items()}:
            yield "the leader has not seen every PersistentVolumeClaim"
        path = f"/apis/resource.k8s.io/v1/namespaces/{space}/resourceclaims"
        real = {
            one["metadata"]["name"]: "allocation" in one.get("status", {})
            for one in get(path)["items"]
        }
        claims = [one for one in taken.state.dra if isinstance(one, ResourceClaim)]
        known = {one.name: one.allocation is not None for one in claims if one.namespace == space}
        if known != real:
            yield "the leader has not seen every ResourceClaim"
        users = [one for one in self._here.pods() if "resourceClaims" in one["spec"]]
        if len(real) != len(users):
            yield f"{len(real)} ResourceClaims for {len(users)} pods"
        slices = {one.pool for one in taken.state.dra if isinstance(one, ResourceSlice)}
        if not {*self._devices} <= slices:
            yield "the leader has not seen every ResourceSlice"

    def _of_leader(self, taken: Snapshot, pods: list[Json]) -> Iterator[str]:
        nodes = {
            one["metadata"]["name"]: one for one in self._here.client.get("/api/v1/nodes")["items"]
        }
        for node in taken.state.nodes:
            real = nodes.pop(node.name, {"spec": {}, "status": {}})
            offered = {k: v for k, v in real["status"].get("capacity", {}).items() if "nvidia" in k}
            if node.unschedulable != bool(real["spec"].get("unschedulable")) or offered != {
                name: str(count) for name, count in node.capacity.items()
            }:
                yield f"node {node.name} is seen as it was"
        if nodes:
            yield f"nodes {sorted(nodes)} are not seen yet"
        own = [one for one in taken.state.pods if one.namespace == self._here.namespace]
        real = {item["metadata"]["uid"]: node_of(item) for item in pods}
        if {one.uid: one.node_name for one in own} != real or taken.state.assumed:
            yield "the leader has not seen every pod"
        decided = {one.uid: one.outcome for one in taken.pending}
        for uid in (uid for uid, name in real.items() if not name):
            if uid not in decided:
                yield f"{uid} was not decided"
            elif decided[uid].is_placed:
                yield f"{uid} may start on {decided[uid].node}"

    def _snapshot(self) -> Snapshot:
        content = fetch(self._product.decisions_port, "/snapshot")
        return snapshots.decode(content.encode(), "the leader")

    def _pod(self, name: str) -> Any:
        return self._here.client.get(f"{PATHS['Pod'].format(self._here.namespace)}/{name}")

    def _pods_of(self, owner: str) -> list[Json]:
        return [one for one in self._here.pods() if _owner(one) == owner]


def owner_of_name(pod: str) -> str:
    """The workload of a pod by its name: ``before-1-5d4f-x2x4z`` is of ``before-1``."""
    parts = pod.split("-")
    return "-".join(parts[:2]) if parts[0] == "before" else parts[0]


def _owner(item: Json) -> str:
    return owner_of_name(str(item["metadata"]["name"]))


def _taints(node: Json | None) -> set[str]:
    return {one["key"] for one in (node or {}).get("spec", {}).get("taints", ())}


def _is_ready(item: Json) -> bool:
    conditions = item.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
