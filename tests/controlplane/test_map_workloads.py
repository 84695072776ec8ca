"""Maps of the workloads of other controllers, on the real API server with CRDs of their kinds.

``examples/map-workloads`` has the objects that users write, and what their controllers create from
them. The controllers themselves do not run: the pods of Jobs, StatefulSets and ReplicaSets come
from Kubernetes' own controllers, all others are created as they are recorded. The sources are named
in the table of ``docs/maps.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Json, Watcher, annotation, cuda, node_of, pod, why
from tests.leftovers import wait_until_gone
from tests.unit.gpuctl.cli import gpuctl
from tools.controlplane import Client, ControlPlane, wait_until
from tools.product import ROOT

EXAMPLES: Final = ROOT / "examples" / "map-workloads"
POLICY: Final = Path(__file__).parents[1] / "cases" / "18-leaderworkerset-webhook.yaml"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
#: Required by the API server for groups below k8s.io.
APPROVED: Final = {"api-approved.kubernetes.io": "unapproved, for tests"}
#: The kinds that own pods or their controllers.
KINDS: Final = (
    *("jobset.x-k8s.io/v1alpha2/JobSet", "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"),
    *("ray.io/v1/RayCluster", "kubeflow.org/v2beta1/MPIJob", "kubeflow.org/v1/PyTorchJob"),
    *("trainer.kubeflow.org/v1alpha1/TrainingRuntime", "trainer.kubeflow.org/v1alpha1/TrainJob"),
    *("grove.io/v1alpha1/PodCliqueSet", "grove.io/v1alpha1/PodClique"),
    *("sparkoperator.k8s.io/v1beta2/SparkApplication", "argoproj.io/v1alpha1/Rollout"),
)

#: The name of a pod, or its start, the node, and CUDA_VISIBLE_DEVICES.
Place = tuple[str, str, str | None]
GROUPS: Final[list[Place]] = [
    ("vllm-0", "gpu-1", "0"),
    ("vllm-0-1", "gpu-1", "1"),
    ("vllm-1", "gpu-2", "0"),
    ("vllm-1-1", "gpu-2", "1"),
]
#: Folder -> its pods with a map.
PLACES: Final = [
    pytest.param(
        "jobset",
        [
            ("train-workers-0-0-", "gpu-1", "0"),
            ("train-workers-0-1-", "gpu-1", "1"),
            ("train-workers-1-0-", "gpu-2", "0"),
            ("train-workers-1-1-", "gpu-2", "1"),
        ],
        id="jobset",
    ),
    pytest.param(
        "jobset-group",
        [
            ("engines-decode-0-0-", "gpu-2", "0"),
            ("engines-decode-1-0-", "gpu-2", "1"),
            ("engines-prefill-0-0-", "gpu-1", "0"),
            ("engines-prefill-1-0-", "gpu-1", "1"),
        ],
        id="jobset-group",
    ),
    pytest.param(
        "raycluster",
        [
            ("tune-one-worker-4xk7d", "gpu-1", "0"),
            ("tune-one-worker-m2v8t", "gpu-2", "0"),
            ("tune-two-worker-b6zrw", "gpu-2", "1,2"),
            ("tune-two-worker-kd9ls", "gpu-1", "1,2"),
        ],
        id="raycluster",
    ),
    pytest.param(
        "mpijob",
        [("cifar-worker-0", "gpu-1", "0,1"), ("cifar-worker-1", "gpu-2", "0,1")],
        id="mpijob",
    ),
    pytest.param(
        "pytorchjob",
        [
            ("mnist-master-0", "gpu-1", "0,1"),
            ("mnist-worker-0", "gpu-2", "0,1"),
            ("mnist-worker-1", "gpu-2", "2,3"),
        ],
        id="pytorchjob",
    ),
    pytest.param(
        "trainjob",
        [("bert-node-0-0-", "gpu-1", "0,1"), ("bert-node-0-1-", "gpu-2", "0,1")],
        id="trainjob",
    ),
    pytest.param(
        "podcliqueset",
        [("inf-0-decode-c4m7p", "gpu-1", "0,1"), ("inf-0-decode-x8v2n", "gpu-2", "0,1")],
        id="podcliqueset",
    ),
    pytest.param(
        "sparkapplication",
        [("etl-3c1b7e98-exec-1", "gpu-1", "0"), ("etl-3c1b7e98-exec-2", "gpu-2", "0")],
        id="sparkapplication",
    ),
    pytest.param(
        "rollout",
        [("serve-6c9f8d7b54-", "gpu-1", "0"), ("serve-6c9f8d7b54-", "gpu-2", "1,2")],
        id="rollout",
    ),
]


@pytest.fixture(scope="module")
def crds(cp: ControlPlane) -> Iterator[Client]:
    """The kinds of the other controllers, whose fields are not checked."""
    names = []
    for word in KINDS:
        group, version, kind = word.split("/")
        names.append(f"{plural(kind)}.{group}")
        cp.client.create(CRDS, definition(group, version, kind))
    for name in names:
        cp.client.wait_for(
            f"{CRDS}/{name}",
            lambda seen: any(
                one["type"] == "Established" and one["status"] == "True"
                for one in seen.get("status", {}).get("conditions") or ()
            ),
            what=f"{name} to be served",
        )
    yield cp.client
    for name in names:
        cp.client.delete(f"{CRDS}/{name}")

    def left() -> set[str]:
        there = {one["metadata"]["name"] for one in cp.client.get(CRDS)["items"]}
        return there.intersection(names)

    wait_until_gone(cp, left)
    # Other files record owners whose kinds are not served, and the garbage collector deletes the
    # pods of an owner that it looks for in vain. It looks for kinds that it has seen, and forgets
    # them after 30 s, or by a restart.
    cp.restart("kube-controller-manager", crash=True)


def plural(kind: str) -> str:
    return kind.lower() + "s"


def definition(group: str, version: str, kind: str) -> Json:
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural(kind)}.{group}", "annotations": APPROVED},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural(kind)},
            "versions": [served],
        },
    }


def created(folder: str) -> list[Json]:
    """What the controllers create in this folder."""
    text = (EXAMPLES / folder / "created.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


class Controllers:
    """Creates what the controllers of an example create, below owners that exist."""

    def __init__(self, here: Watcher) -> None:
        self.here = here
        self.uids: dict[tuple[str, str], str] = {}

    def create(self, folder: str) -> None:
        """First the objects of the user, then what their controllers make of them."""
        self.create_user(folder)
        for document in created(folder):
            self.create_one(document)

    def create_user(self, folder: str) -> None:
        for path in (EXAMPLES / folder).glob("*.yaml"):
            if path.stem != "created":
                for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                    self.create_one(document)

    def create_one(self, document: Json) -> None:
        metadata = document["metadata"]
        metadata.pop("uid", None)
        for owner in metadata.get("ownerReferences", ()):
            owner["uid"] = self.uid(owner["kind"], owner["name"])
        version = document["apiVersion"]
        root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        path = f"{root}/namespaces/{self.here.namespace}/{plural(document['kind'])}"
        made = self.here.client.create(path, document)
        self.uids[document["kind"], metadata["name"]] = made["metadata"]["uid"]

    def uid(self, kind: str, name: str) -> str:
        """The uid of an owner; a leader's pod comes from its StatefulSet."""
        if (kind, name) not in self.uids:
            assert kind == "Pod"
            made = self.here.client.wait_for(
                f"{self.here.pods_path}/{name}", lambda seen: seen is not None, what=f"pod {name}"
            )
            self.uids[kind, name] = made["metadata"]["uid"]
        return self.uids[kind, name]


@pytest.fixture
def controllers(here: Watcher, crds: Client, kwok_node: MakeNode) -> Controllers:
    """A fresh namespace, and the two nodes of the examples."""
    for number in (1, 2):
        kwok_node(f"gpu-{number}", labels={"gpu-node-name": f"node{number}"})
    return Controllers(here)


@pytest.fixture
def numbered_by_webhook(here: Watcher) -> Iterator[None]:
    """What the webhook of LeaderWorkerSet adds to its pods, as a policy in force."""
    policy, binding = yaml.safe_load_all(POLICY.read_text(encoding="utf-8"))
    here.client.create(POLICIES, policy)
    here.client.create(BINDINGS, binding)
    probe = pod("probe-7", labels={well_known.LWS_NAME: "probe", well_known.LWS_WORKER: "0"})

    def is_in_force() -> bool:
        made = here.client.create(f"{here.pods_path}?dryRun=All", probe)
        return bool(made["metadata"]["labels"].get(well_known.LWS_GROUP) == "7")

    wait_until(is_in_force, what="the policy to number pods")
    yield
    for path in (BINDINGS, POLICIES):
        here.client.delete(f"{path}/leader-worker-set")


def places(items: list[Json], names: set[str]) -> list[Place]:
    """The pods with a map, by these names; other names without their random end."""
    found = []
    for item in items:
        name = item["metadata"]["name"]
        stem = name if name in names else name.rpartition("-")[0] + "-"
        if annotation(item, well_known.MAP) is not None:
            found.append((stem, node_of(item), cuda(item)))
    return sorted(found)


def check(controllers: Controllers, folder: str, expected: list[Place]) -> None:
    names = {name for name, _, _ in expected}
    controllers.create(folder)

    items = controllers.here.wait(
        f"{len(expected)} placed pods with a map",
        lambda found: sum(1 for _, node, _ in places(found, names) if node) == len(expected),
    )

    assert places(items, names) == expected


@pytest.mark.contract("S2-B9")
@pytest.mark.parametrize(("folder", "expected"), PLACES)
def test_pods_of_other_controllers_get_the_lines_of_their_numbers(
    folder: str, expected: list[Place], controllers: Controllers
) -> None:
    """And their containers see the devices of the same lines."""
    check(controllers, folder, expected)


@pytest.mark.contract("S2-B9")
@pytest.mark.kubernetes("1.36", "MutatingAdmissionPolicy is not v1 before")
@pytest.mark.usefixtures("numbered_by_webhook")
def test_groups_of_a_leader_worker_set_get_their_lines(controllers: Controllers) -> None:
    """The labels of its webhook and the size give the rank in the whole set."""
    check(controllers, "leaderworkerset", GROUPS)

    labels = [item["metadata"]["labels"] for item in controllers.here.pods()]
    found = [(one[well_known.LWS_GROUP], one[well_known.LWS_WORKER]) for one in labels]
    assert found == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]


def test_canary_of_a_rollout_waits_for_a_line_of_the_stable_pods(controllers: Controllers) -> None:
    """The ReplicaSets of one Rollout are one workload."""
    controllers.create("rollout")
    controllers.here.wait_bound(2)
    canary = created("rollout")[0]
    canary["metadata"]["name"] = "serve-7d5b6c8f99"
    canary["spec"]["replicas"] = 1
    labels = {"app": "serve", well_known.ROLLOUT_TEMPLATE_HASH: "7d5b6c8f99"}
    canary["spec"]["selector"]["matchLabels"] = labels
    canary["spec"]["template"]["metadata"]["labels"] = labels
    controllers.create_one(canary)

    items = controllers.here.wait(
        "the reason of the canary", lambda found: any("IndexHeldByOlder" in why(i) for i in found)
    )
    assert sum(1 for item in items if node_of(item)) == 2

    scale = {"spec": {"replicas": 1}}
    replica_sets = f"/apis/apps/v1/namespaces/{controllers.here.namespace}/replicasets"
    controllers.here.client.patch(f"{replica_sets}/serve-6c9f8d7b54", scale)
    controllers.here.wait(
        "the canary to get the line that became free",
        lambda found: sorted(map(node_of, found)) == ["gpu-1", "gpu-2"],
    )


def test_why_names_the_source_of_the_index(controllers: Controllers, cp: ControlPlane) -> None:
    """A pod whose index has no line keeps its reason."""
    text = "0=node1:0\n1=node1:1"
    document = created("mpijob")[0]
    document["metadata"]["annotations"] = {well_known.MAP: text}
    document["metadata"]["labels"][well_known.TRAINING_REPLICA] = "2"
    controllers.create_user("mpijob")
    controllers.create_one(document)
    name = document["metadata"]["name"]
    controllers.here.wait_explained(name, "gpu-scheduling-map has no line for index 2")

    asked = ("why", name, "-n", controllers.here.namespace, "--no-forward")
    answer = gpuctl(*asked, "--kubeconfig", str(cp.kubeconfig), "-o", "json")

    assert json.loads(answer.out)["witness"]["given"]["indexSource"] == (
        f"2: replica of one role; each role has a map of its own ({well_known.TRAINING_REPLICA}=2)"
    )


def asks_for_its_group(document: Json) -> Json:
    """The pod, or the pods of the template, ask for the gang of their owner."""
    inner = document["spec"].get("template", document)
    inner["metadata"].setdefault("annotations", {})[well_known.GROUP_FROM] = "owner"
    return document


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        pytest.param("raycluster", "waiting for members 4/5 of group tune; 1/2 of two", id="ray"),
        pytest.param("mpijob", "waiting for members 1/2 of group cifar", id="mpi"),
        pytest.param("jobset", "waiting for members 1/5 of group train; 0/4 of workers", id="jobs"),
    ],
)
def test_the_owner_says_how_many_pods_start_together(
    folder: str, text: str, controllers: Controllers
) -> None:
    """Its object is read with the product's own rights."""
    missing = {"raycluster": "tune-two-worker", "mpijob": "cifar-worker-0", "jobset": "workers"}
    every = [asks_for_its_group(one) for one in created(folder)]
    late = [one for one in every if missing[folder] in one["metadata"]["name"]]
    late = late if folder == "jobset" else late[:1]
    controllers.create_user(folder)
    for document in every:
        if document not in late and "launcher" not in document["metadata"]["name"]:
            controllers.create_one(document)
    waiting = controllers.here.wait(
        "every pod to wait for its group",
        lambda found: bool(found) and all(text in why(item) for item in found),
    )
    assert not any(map(node_of, waiting))

    for document in late:
        controllers.create_one(document)

    controllers.here.wait_bound(5 if folder != "mpijob" else 2)
