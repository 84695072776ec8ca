"""``gpuctl whatif`` agrees with what then happens on a real API server, in random cases."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.tenants import grant
from tests.controlplane.whatif.cases import random_case
from tests.controlplane.whatif.cluster_objects import VOLUMES, shared_objects
from tests.controlplane.whatif.scene import Scene, owner_of_name
from tests.controlplane.workloads import Json, Watcher
from tests.unit.gpuctl.cli import gpuctl
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product

LOG: Final = logging.getLogger(__name__)
FEW: Final = range(1, 6)
NIGHTLY: Final = range(101, 151)


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Without migrations, which would move pods behind the test's back."""
    config = {"restore": {"mode": "off"}}
    with (
        Product(cp, tmp_path_factory.mktemp("product"), config=config) as running,
        shared_objects(cp),
    ):
        yield running


@pytest.fixture
def made(cp: ControlPlane) -> Iterator[list[str]]:
    """The paths of cluster-wide objects, which are removed after the pods."""
    paths: list[str] = []
    yield paths
    for path in paths:
        if path.startswith(VOLUMES):
            cp.client.patch(path, {"metadata": {"finalizers": None}})
        cp.client.delete_if_there(path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "seed",
    [
        *FEW,
        *(pytest.param(seed, marks=pytest.mark.nightly) for seed in NIGHTLY),
    ],
)
def test_answer_agrees_with_what_then_happens(
    cp: ControlPlane,
    product: Product,
    made: list[str],
    here: Watcher,
    tmp_path: Path,
    seed: int,
) -> None:
    case = random_case(seed)
    scene = Scene(cp, product, here, case)
    scene.made = made
    scene.set_up()
    waited = scene.waiting_names()
    before = scene.preempted(waited)

    answer = scene.ask(tmp_path, of_leader=bool(seed % 2))
    scene.change(answer)
    moves = [move for move in answer.get("moves", ()) if not move.get("stays")]
    scene.start()

    told = answer["change"]
    LOG.info(
        "seed %s: %s: %s of %s start, %s moves, %s preempted",
        seed,
        " ".join(case.change),
        told["starts"],
        told["asked"],
        len(moves),
        len(told.get("preempted", ())),
    )
    assert _places(told) == scene.places("asked")
    assert _codes(told) == scene.codes("asked")
    waiting = told.get("othersWait", 0) + sum("node" not in one for one in moves)
    assert waiting == scene.waiting()
    assert _moved(moves) - scene.places_by_owner() == Counter()
    preempted = Counter(owner_of_name(key.partition("/")[2]) for key in told.get("preempted", ()))
    wait_until(
        lambda: scene.preempted(waited) - before == preempted,
        what=f"{preempted} to be preempted",
        last=lambda: scene.preempted(waited) - before,
    )


def _places(told: Json) -> Counter[str]:
    return Counter(one.get("node", "") for one in told["pods"])


def _moved(moves: list[Json]) -> Counter[tuple[str, str]]:
    """The new nodes of pods that moved, with their workloads."""
    return Counter((owner_of_name(one["pod"]), one["node"]) for one in moves if "node" in one)


def _codes(told: Json) -> Counter[tuple[str, ...]]:
    return Counter(tuple(one["codes"]) for one in told["pods"] if not one.get("node"))


def test_tenant_gets_one_line(cp: ControlPlane, namespace: str) -> None:
    user = f"tenant-{namespace}"
    grant(cp, user, namespace, "edit")
    config = str(cp.kubeconfig_for_user(user))

    result = gpuctl("whatif", "--drain", "n1", "-n", namespace, "--kubeconfig", config)

    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("gpuctl whatif: you may not list nodes of the whole cluster;")
    assert result.err.count("\n") == 1
