"""The claim for extended resources has kube-scheduler's requests and mappings."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.dra.extended_resources import extended_requests
from tests.builders import container, pod

A, B = "example.com/a", "example.com/b"
CLASSES = {A: "class-a", B: "class-b"}


def app(name: str, **amounts: int) -> dict[str, Any]:
    """A container that requests this much of ``a`` and ``b``, beside a CPU."""
    return container(name, requests={"cpu": 1, **named(amounts)})


def sidecar(name: str, **amounts: int) -> dict[str, Any]:
    """The same, running beside the containers after it."""
    return container(name, requests={"cpu": 1, **named(amounts)}, sidecar=True)


def named(amounts: dict[str, int]) -> dict[str, int]:
    return {f"example.com/{name}": count for name, count in amounts.items()}


#: (init containers, containers, requests by class, mappings); positions count from cpu, which is 0.
CASES = [
    pytest.param(
        [],
        [app("x", a=2)],
        {"container-0-request-1": ("class-a", 2)},
        [("x", A, "container-0-request-1")],
        id="one-resource",
    ),
    pytest.param(
        [],
        [app("x", a=1, b=2)],
        {"container-0-request-1": ("class-a", 1), "container-0-request-2": ("class-b", 2)},
        [("x", A, "container-0-request-1"), ("x", B, "container-0-request-2")],
        id="two-resources-of-a-container",
    ),
    pytest.param(
        [],
        [app("x", a=1), app("y"), app("z", a=3)],
        {"container-0-request-1": ("class-a", 1), "container-2-request-1": ("class-a", 3)},
        [("x", A, "container-0-request-1"), ("z", A, "container-2-request-1")],
        id="each-container-has-a-request",
    ),
    pytest.param(
        [app("i", a=2)],
        [app("x", a=1), app("y", a=1)],
        {"container-1-request-1": ("class-a", 1), "container-2-request-1": ("class-a", 1)},
        [
            ("x", A, "container-1-request-1"),
            ("y", A, "container-2-request-1"),
            ("i", A, "container-1-request-1"),
            ("i", A, "container-2-request-1"),
        ],
        id="an-init-container-uses-the-devices-of-later-containers",
    ),
    pytest.param(
        [app("i", a=1)],
        [app("x", a=1), app("y", a=1)],
        {"container-1-request-1": ("class-a", 1), "container-2-request-1": ("class-a", 1)},
        [
            ("x", A, "container-1-request-1"),
            ("y", A, "container-2-request-1"),
            ("i", A, "container-1-request-1"),
        ],
        id="and-no-more-than-it-needs",
    ),
    pytest.param(
        [app("i", a=3), app("j", a=4), app("k", a=2)],
        [app("x", a=1)],
        {"container-1-request-1": ("class-a", 3), "container-3-request-1": ("class-a", 1)},
        [
            ("x", A, "container-3-request-1"),
            ("i", A, "container-3-request-1"),
            ("i", A, "container-1-request-1"),
            ("j", A, "container-3-request-1"),
            ("j", A, "container-1-request-1"),
            ("k", A, "container-3-request-1"),
            ("k", A, "container-1-request-1"),
        ],
        id="init-containers-share-the-largest-request",
    ),
    pytest.param(
        [app("i", a=1), sidecar("s", a=1), app("j", a=2)],
        [app("x", b=1)],
        {
            "container-1-request-1": ("class-a", 1),
            "container-2-request-1": ("class-a", 2),
            "container-3-request-1": ("class-b", 1),
        },
        [
            ("s", A, "container-1-request-1"),
            ("i", A, "container-1-request-1"),
            ("j", A, "container-2-request-1"),
            ("x", B, "container-3-request-1"),
        ],
        id="a-sidecar-runs-beside-the-init-containers-after-it",
    ),
    pytest.param([], [app("x", a=0)], {}, [], id="nothing-of-zero"),
]


@pytest.mark.parametrize(("init", "containers", "requests", "mappings"), CASES)
def test_requests_and_mappings_of_the_claim(
    init: list[Any],
    containers: list[Any],
    requests: dict[str, tuple[str, int]],
    mappings: list[tuple[str, str, str]],
) -> None:
    asked = extended_requests(pod(containers=containers, init=init).containers, CLASSES)

    exact = [one.exactly for one in asked.requests]
    assert {one.name: (one.class_name, one.count) for one in exact if one} == requests
    assert [(one.container, one.resource, one.request) for one in asked.mappings] == mappings


def test_a_claim_asks_only_for_resources_that_dra_serves() -> None:
    both = pod(containers=[app("x", a=1, b=1)])

    asked = extended_requests(both.containers, {B: "class-b"})

    assert [one.name for one in asked.requests] == ["container-0-request-2"]


@pytest.mark.parametrize(
    ("init", "containers", "total"),
    [
        pytest.param([app("i", a=5)], [app("x", a=2), app("y", a=1)], 5, id="init-above"),
        pytest.param([sidecar("s", a=1), app("i", a=5)], [app("x", a=2)], 6, id="with-sidecar"),
        pytest.param([app("i", a=1)], [app("x", a=2), app("y", a=1)], 3, id="init-below"),
    ],
)
def test_a_claim_asks_for_as_many_devices_as_the_pod_requests(
    init: list[Any], containers: list[Any], total: int
) -> None:
    """The upper bound on the node counts the effective requests of the pod."""
    newcomer = pod(containers=containers, init=init)
    asked = extended_requests(newcomer.containers, CLASSES)

    assert sum(one.exactly.count for one in asked.requests if one.exactly) == total
    assert newcomer.requests[A] == total
