"""The attacks of tenants and nodes, by name: required identity, concurrency, and content.

Each creates something that stays for a while, and returns how it is taken away again. What the API
server or one of its policies refuses is over at once, which is a right outcome.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple

from scheduler.model import well_known
from tests.chaos.scene import CAPACITY, DYNAMIC, EVIL, Scene
from tests.controlplane import hostile
from tests.controlplane.hostile import GPU, SMALL
from tests.controlplane.workloads import Json, pod
from tools.controlplane import ApiError

Undo = Callable[[], None]
#: Takes the scene, chance, and a name that no other attack of the run has.
Begin = Callable[[Scene, random.Random, str], Undo]

SLICES: Final = (hostile.MOST, 60_000_000, 2_000)
#: Enough to pass the webhook's memory limit where they are not bounded; the machine survives it.
LOCAL_GPUS: Final = (3_000_000, 5_000_000)
TERMS: Final = 4000
#: Which annotations a tenant writes, with values that a reader may not expect.
READ: Final = (
    *(
        well_known.MAP,
        well_known.CUDA_MODE,
        well_known.MIG_FALLBACK,
        well_known.MEMORY_FLOOR,
        well_known.WANTED_MEMORY,
    ),
    *(
        well_known.RESTORE,
        well_known.PREFER,
        well_known.TIER_NODES,
        well_known.MEMORY_GIVEN,
        well_known.FALLBACK,
    ),
    *(well_known.ORIGINAL, well_known.JOB_INDEX, well_known.RESERVATION, well_known.MIGRATION),
)
ODD: Final = (
    hostile.DIGITS,
    "[" * 5000,
    '{"a":' * 5000,
    "0=" + "a" * 5000,
    "->".join(["2g.20gb"] * 500),
    "0=counted0:" + hostile.DIGITS,
    "\u202e\ufeff\u0661",
    "-1",
    "1e999999999",
    "",
)
#: Of nodes: labels are short, annotations may be long.
ODD_LABELS: Final = ("9" * 63, "0", "A" * 63, "1.5", "true")
NODE_LABELS: Final = (
    *(well_known.GPU_COUNT, well_known.GPU_MEMORY, well_known.GPU_PRODUCT, well_known.MIG_STRATEGY),
    *(
        well_known.MIG_STATE,
        well_known.MIG_WANTED,
        well_known.MIG_MANAGER,
        well_known.MIG_DYNAMIC,
        well_known.NUMBERED,
    ),
    *(*well_known.DISCOVERED, well_known.DEPLOY_PLUGIN),
)


class Attack(NamedTuple):
    """One kind of attack; ``who`` is the weakest identity that can run it."""

    name: str
    who: str
    alive_max: int
    begin: Begin


def _created(scene: Scene, body: Json) -> Undo:
    scene.alice.create(body)
    path = scene.alice.path(body["kind"], body["metadata"]["name"])
    return lambda: scene.alice.client.delete_if_there(path)


def _mig_count(scene: Scene, rng: random.Random, name: str) -> Undo:
    return _created(scene, hostile.mig_count(name, rng.choice(SLICES)))


def _move(scene: Scene, rng: random.Random, name: str) -> Undo:
    return _created(scene, hostile.unreadable_move(name))


def _tier_nodes(scene: Scene, rng: random.Random, name: str) -> Undo:
    return _created(scene, hostile.unreadable_tier_nodes(name))


def _original(scene: Scene, rng: random.Random, name: str) -> Undo:
    if rng.random() < 0.5:
        return _created(scene, hostile.nested_original(name))
    return _created(scene, hostile.huge_original(name, tolerations=hostile.TOLERATES))


def _odd_annotations(scene: Scene, rng: random.Random, name: str) -> Undo:
    annotations = {key: rng.choice(ODD) for key in rng.sample(READ, 4)}
    limits = {rng.choice((GPU, SMALL)): "1"}
    nowhere = {"kubernetes.io/hostname": "nowhere"}
    return _created(
        scene, pod(f"{name}-0", annotations=annotations, limits=limits, nodeSelector=nowhere)
    )


def _local_devices(scene: Scene, rng: random.Random, name: str) -> Undo:
    body = hostile.local_devices(f"{name}-7", rng.choice(LOCAL_GPUS), "plain0")
    scene.alice.client.create(f"{scene.alice.pods_path}?dryRun=All", body)
    return lambda: None


def _map_past(scene: Scene, rng: random.Random, name: str) -> Undo:
    body = hostile.map_past_the_scheduler(f"{name}-0", rng.choice(list(CAPACITY)))
    return _created(scene, body)


def _map_afterwards(scene: Scene, rng: random.Random, name: str) -> Undo:
    """The annotation comes once the pod has a node, or too early, which is harmless."""
    undo = _created(scene, pod(f"{name}-0"))
    note = {"metadata": {"annotations": {well_known.MAP: f"0={rng.choice(list(CAPACITY))}:0"}}}
    try:
        scene.alice.client.patch(scene.alice.path("Pod", f"{name}-0"), note)
    except ApiError:
        undo()
        raise
    return undo


def _affinity_terms(scene: Scene, rng: random.Random, name: str) -> Undo:
    return _created(scene, hostile.affinity_terms(name, TERMS))


def _forged_reservation(scene: Scene, rng: random.Random, name: str) -> Undo:
    return _created(scene, hostile.forged_reservation(name, rng.randint(1, 3)))


def _many_annotations(scene: Scene, rng: random.Random, name: str) -> Undo:
    return _created(scene, hostile.many_annotations(name, 3000))


def _forged_binding(scene: Scene, rng: random.Random, name: str) -> Undo:
    """By an account that may bind in one namespace, such as a team's own scheduler."""
    undo = _created(scene, pod(name, scheduler=hostile.ELSEWHERE))
    forged = {well_known.DEVICES: "gpu:0,1,2,3,4,5,6,7", well_known.EPOCH: "1"}
    try:
        body = {
            "metadata": {"name": name, "annotations": forged},
            "target": {"kind": "Node", "name": "numbered0"},
        }
        scene.alice.client.create(f"{scene.alice.pods_path}/{name}/binding", body)
    except ApiError:
        undo()
        raise
    return undo


def _dynamic_slices(scene: Scene, rng: random.Random, name: str) -> Undo:
    there = {"kubernetes.io/hostname": DYNAMIC}
    limits = {SMALL: "2000", hostile.BIG: "1000"}
    return _created(
        scene, pod(name, limits=limits, nodeSelector=there, tolerations=hostile.TOLERATES)
    )


# --- nodes ---------------------------------------------------------------------------------------


def _node_says(
    scene: Scene, node: str, metadata: dict[str, dict[str, str]], status: Json | None = None
) -> Undo:
    """False data of one hostile kubelet about its own node; an administrator corrects it."""
    path = f"/api/v1/nodes/{node}"
    client = scene.kubelets[node]
    client.patch(path, {"metadata": metadata})
    if status is not None:
        client.patch(f"{path}/status", {"status": {"capacity": status, "allocatable": status}})
    gone = {kind: dict.fromkeys(values) for kind, values in metadata.items()}

    def undo() -> None:
        scene.plane.client.patch(path, {"metadata": gone})
        if status is not None:
            right = dict.fromkeys(status) | {GPU: "4", "cpu": "64", "pods": "110"}
            body = {"status": {"capacity": right, "allocatable": right}}
            scene.plane.client.patch(f"{path}/status", body)

    return undo


def _unusable_devices(scene: Scene, rng: random.Random, name: str) -> Undo:
    note = {well_known.UNUSABLE_DEVICES: hostile.DIGITS}
    return _node_says(scene, rng.choice(EVIL), {"annotations": note})


def _millions_of_gpus(scene: Scene, rng: random.Random, name: str) -> Undo:
    labels = {"labels": {well_known.NUMBERED: "numbered"}}
    return _node_says(scene, rng.choice(EVIL), labels, {GPU: "30000000"})


def _another_nodes_name(scene: Scene, rng: random.Random, name: str) -> Undo:
    labels = {"labels": {rng.choice(well_known.NODE_ALIASES): rng.choice(("plain0", "plain1"))}}
    return _node_says(scene, rng.choice(EVIL), labels)


def _odd_labels(scene: Scene, rng: random.Random, name: str) -> Undo:
    metadata = {
        "labels": {key: rng.choice(ODD_LABELS) for key in rng.sample(NODE_LABELS, 3)},
        "annotations": {well_known.MIG_CONFIG: rng.choice(ODD)},
    }
    return _node_says(scene, rng.choice(EVIL), metadata)


ATTACKS: Final = (
    Attack("MIG quantity", "tenant", 3, _mig_count),
    Attack("move annotation", "tenant", 2, _move),
    Attack("tier-nodes", "tenant", 2, _tier_nodes),
    Attack("original annotation", "tenant", 2, _original),
    Attack("odd annotations", "tenant", 8, _odd_annotations),
    Attack("GPUs to number, dry run", "tenant", 1, _local_devices),
    Attack("map past the scheduler", "tenant", 6, _map_past),
    Attack("map added to a placed pod", "tenant", 6, _map_afterwards),
    Attack("affinity terms", "tenant", 10, _affinity_terms),
    Attack("forged reservation", "tenant", 4, _forged_reservation),
    Attack("thousands of annotations", "tenant", 2, _many_annotations),
    Attack("forged Binding", "tenant with pods/binding", 2, _forged_binding),
    Attack("thousands of slices to cut", "tenant", 2, _dynamic_slices),
    Attack("unusable-devices", "node", 1, _unusable_devices),
    Attack("millions of GPUs", "node", 1, _millions_of_gpus),
    Attack("another node's name", "node", 1, _another_nodes_name),
    Attack("odd node labels", "node", 1, _odd_labels),
)
