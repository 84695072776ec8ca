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
from tests.controlplane.whatif.scene import Scene, owner_of_name
from tests.controlplane.workloads import Json, Watcher
from tests.unit.gpuctl.cli import gpuctl
from tools.controlplane import ControlPlane
from tools.product import Product

LOG: Final = logging.getLogger(__name__)
FEW: Final = range(1, 6)
NIGHTLY: Final = range(101, 151)


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Without migrations, which would move pods behind the test's back."""
    config = {"restore": {"mode": "off"}}
    with Product(cp, tmp_path_factory.mktemp("product"), config=config) as running:
        yield running


@pytest.fixture
def nodes(cp: ControlPlane) -> Iterator[list[str]]:
    """The names of nodes that are removed after the pods."""
    names: list[str] = []
    yield names
    for name in names:
        cp.client.delete_if_there(f"/api/v1/nodes/{name}")


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
    nodes: list[str],
    here: Watcher,
    tmp_path: Path,
    seed: int,
) -> None:
    case = random_case(seed)
    scene = Scene(cp, product, here, case)
    scene.nodes = nodes
    scene.set_up()

    answer = scene.ask(tmp_path, of_leader=bool(seed % 2))
    scene.change(answer)
    moves = [move for move in answer.get("moves", ()) if not move.get("stays")]
    waiting = scene.waiting()
    scene.start()

    told = answer["change"]
    LOG.info(
        "seed %s: %s: %s of %s start, %s moves",
        seed,
        " ".join(case.change),
        told["starts"],
        told["asked"],
        len(moves),
    )
    assert _places(told) == scene.places("asked")
    assert _codes(told) == scene.codes("asked")
    assert told.get("othersWait", 0) + sum("node" not in one for one in moves) == waiting
    assert _moved(moves) - scene.places_by_owner() == Counter()


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
