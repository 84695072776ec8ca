"""Tiers in the simulator: quotas, nodes of a tier, floors and memory requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.gpuctl.cli import GPU, MIG_1G, MIG_2G, Json, gpuctl, node, pod, rows, spec

LADDER = "gpu-scheduler.io/mig-fallback"


def quota(name: str, namespace: str = "default", **hard: int) -> Json:
    """A ResourceQuota on ``mig_1g`` or ``mig_2g``."""
    known = {"mig_1g": f"requests.{MIG_1G}", "mig_2g": f"requests.{MIG_2G}"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": {known[word]: str(count) for word, count in hard.items()}},
    }


def wants_2g(name: str, **annotations: str) -> Json:
    given = {f"gpu-scheduler.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return pod(name, spec(MIG_2G, 1), annotations=given)


def granted(found: list[Json]) -> dict[str, Json]:
    return {row["pod"]: row["granted"] for row in found}


def test_full_quota_of_a_lower_tier_keeps_the_pod_with_a_remark() -> None:
    pods = [wants_2g(f"p{number}", mig_fallback="2g.20gb->1g.10gb") for number in range(3)]

    found = rows(node("n", mig_1g=9), quota("small", mig_1g=2), *pods)

    assert granted(found) == {"p0": {MIG_1G: 1}, "p1": {MIG_1G: 1}, "p2": {}}
    assert (
        "1g.10gb not tried: ResourceQuota small allows 2 x 1g.10gb and 2 are used"
        in (found[2]["reason"])
    )


def test_full_quota_of_the_requested_tier_refuses_as_the_api_server() -> None:
    pods = [wants_2g("first"), wants_2g("second")]

    found = rows(node("n", mig_2g=5, mig_1g=5), quota("big", mig_2g=1), *pods)

    assert granted(found) == {"first": {MIG_2G: 1}, "second": {}}
    assert found[1]["reason"] == (
        f"refused at admission: exceeded quota: big, requested: requests.{MIG_2G}=1,"
        f" used: requests.{MIG_2G}=1, limited: requests.{MIG_2G}=1"
    )


def test_quota_counts_running_pods_of_its_own_namespace_only() -> None:
    running = pod("running", spec(MIG_1G, 1, nodeName="n"))
    elsewhere = {**running, "metadata": {"name": "elsewhere", "namespace": "other"}}
    limits = (quota("small", mig_1g=1), quota("theirs", "other", mig_1g=0))

    full = rows(node("n", mig_1g=9), *limits, running, wants_2g("p"))
    free = rows(node("n", mig_1g=9), *limits, elsewhere, wants_2g("p"))

    assert (granted(full)["p"], granted(free)["p"]) == ({}, {MIG_1G: 1})


def test_a_tier_counts_on_the_nodes_that_it_names() -> None:
    ladder = {LADDER: "2g.20gb->1g.10gb[gpu-type=a100]"}
    nodes = (node("h", {"gpu-type": "h100"}, mig_1g=9), node("a", {"gpu-type": "a100"}, mig_1g=1))
    pods = [pod(f"p{number}", spec(MIG_2G, 1), annotations=ladder) for number in range(2)]

    found = rows(*nodes, *pods)

    assert [row["node"] for row in found] == ["a", None]


def test_a_wish_for_memory_gets_the_smallest_thing_that_has_it() -> None:
    card = node("n", {"nvidia.com/gpu.memory": "81559"}, mig_2g=1, mig_1g=1, gpu=1)
    pods = [
        pod(f"p{number}", spec(), annotations={"gpu-scheduler.io/gpu-memory": "16Gi"})
        for number in range(3)
    ]

    found = rows(card, *pods)

    assert granted(found) == {"p0": {MIG_2G: 1}, "p1": {GPU: 1}, "p2": {}}
    assert found[0]["reason"] == "for its GPU memory: c=2g.20gb"
    assert found[2]["requested"] == {}


@pytest.mark.parametrize(
    ("annotations", "line"),
    [
        pytest.param(
            {"memory_floor": "x"},
            "refused at admission: gpu-scheduler.io/memory-floor: 'x' is not an amount of memory"
            " such as 16Gi",
            id="a-bad-floor",
        ),
        pytest.param(
            {"gpu_memory": "16Gi"},
            f"refused at admission: gpu-scheduler.io/gpu-memory: the pod also requests {MIG_2G};"
            " keep one of the two",
            id="two-wishes",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_as_the_webhook_refuses_it(
    annotations: dict[str, Any], line: str
) -> None:
    [row] = rows(node("n", mig_2g=1), wants_2g("p", **annotations))

    assert row["reason"] == line


def test_a_quota_that_cannot_be_read_is_one_line() -> None:
    text = (
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\n"
        f"spec: {{hard: {{requests.{MIG_1G}: many}}}}"
    )
    result = gpuctl("simulate", "-", stdin=text)

    assert result.status != 0
    assert "stdin: document 1 (ResourceQuota q): spec.hard[" in result.err
    assert "is not a quantity" in result.err


CASES = Path(__file__).parents[3] / "cases"


def test_simulator_gives_the_slice_to_the_intended_container() -> None:
    text = (CASES / "08-gpu-memory-goes-to-injected-sidecar.yaml").read_text(encoding="utf-8")

    [row] = rows(text)

    assert row["granted"] == {MIG_2G: 1}
    assert row["reason"] == "for its GPU memory: train=2g.20gb"


def test_the_simulator_says_where_it_had_to_guess() -> None:
    given = {"gpu-scheduler.io/gpu-memory": "16Gi"}
    two = {**spec(MIG_2G, 0), "containers": [{"name": one, "image": "i"} for one in ("a", "b")]}

    [row] = rows(node("n", mig_2g=1), pod("p", two, annotations=given))

    assert "no container is named, so a gets the GPU as the first of a, b" in row["reason"]
