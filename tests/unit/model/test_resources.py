"""Effective requests: what one pod takes from a node, as PodRequests of Kubernetes adds it up."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import resources
from tests.builders import GPU, MIG_2G, container, pod

CASES = [
    pytest.param([container(gpus=1)], [], {}, {GPU: 1}, id="one-container"),
    pytest.param([container(gpus=1), container("b", gpus=2)], [], {}, {GPU: 3}, id="apps-add-up"),
    pytest.param(
        [container(gpus=1), container("b", gpus=1)],
        [container("prep", gpus=3)],
        {},
        {GPU: 3},
        id="an-init-container-only-raises-the-maximum",
    ),
    pytest.param(
        [container(gpus=2)],
        [container("prep", gpus=1), container("more", gpus=1)],
        {},
        {GPU: 2},
        id="init-containers-run-one-after-the-other",
    ),
    pytest.param(
        [container(requests={"cpu": "1"})],
        [container("log", requests={"cpu": "1"}, sidecar=True)],
        {},
        {"cpu": 2000},
        id="a-sidecar-runs-beside-the-apps",
    ),
    pytest.param(
        [container(requests={"cpu": "1"})],
        [
            container("log", requests={"cpu": "1"}, sidecar=True),
            container("prep", requests={"cpu": "2"}),
        ],
        {},
        {"cpu": 3000},
        id="case-19-sidecar-before-an-init-container",
    ),
    pytest.param(
        [container(requests={"cpu": "1"})],
        [
            container("prep", requests={"cpu": "2"}),
            container("log", requests={"cpu": "1"}, sidecar=True),
        ],
        {},
        {"cpu": 2000},
        id="a-sidecar-that-starts-later-does-not-count-for-an-earlier-init-container",
    ),
    pytest.param(
        [container(requests={"cpu": "2"})],
        [],
        {"resources": {"requests": {"cpu": "1"}}, "overhead": {"cpu": "250m"}},
        {"cpu": 1250},
        id="case-20-overhead-on-top-of-the-pods-own-value",
    ),
    pytest.param(
        [container(requests={"cpu": "1", GPU: 2, "ephemeral-storage": "1Gi"})],
        [],
        {"resources": {"requests": {"memory": "2Gi", "hugepages-2Mi": "4Mi"}}},
        {
            "cpu": 1000,
            GPU: 2,
            "ephemeral-storage": 2**30,
            "memory": 2**31,
            "hugepages-2Mi": 4 * 2**20,
        },
        id="the-pods-own-values-leave-other-resources-alone",
    ),
    pytest.param(
        [container(requests={"cpu": "1.5m", "memory": "0.5"})],
        [],
        {},
        {"cpu": 2, "memory": 1},
        id="rounded-up",
    ),
    pytest.param([container()], [], {}, {}, id="no-requests"),
]


@pytest.mark.parametrize(("containers", "init", "spec", "expected"), CASES)
def test_effective_requests(
    containers: list[Any], init: list[Any], spec: dict[str, Any], expected: dict[str, int]
) -> None:
    assert pod(containers=containers, init=init, spec=spec).requests == expected


def test_a_limit_alone_is_a_request() -> None:
    """As the API server defaults it; files read by the simulator come without that default."""
    only_limit = {"name": "app", "resources": {"limits": {MIG_2G: "1", "cpu": "1"}}}

    assert pod(containers=[only_limit]).requests == {MIG_2G: 1, "cpu": 1000}


@pytest.mark.parametrize(
    ("amount", "held"),
    [
        pytest.param("0", {}, id="zero-holds-nothing"),
        pytest.param(1, {MIG_2G: 1}, id="a-number-in-raw-json"),
        pytest.param("1000m", {MIG_2G: 1}, id="milli"),
        pytest.param("1k", {MIG_2G: 1000}, id="kilo"),
    ],
)
def test_counts_of_devices_in_any_spelling(amount: Any, held: dict[str, int]) -> None:
    """Field case C20."""
    written = {"name": "app", "resources": {"limits": {MIG_2G: amount}}}

    assert pod(containers=[written]).gpu_requests == held


def test_a_number_without_quotes_is_a_quantity() -> None:
    """``cpu: 0.5`` in a manifest is a JSON number, which kubectl passes on as it is."""
    written = {"name": "app", "resources": {"requests": {"cpu": 0.5, "memory": 1e3}}}

    assert pod(containers=[written]).requests == {"cpu": 500, "memory": 1000}


def test_inputs_are_not_modified() -> None:
    regular, sidecar, own = {"cpu": 1}, {"cpu": 2}, {"cpu": 3}

    resources.effective([regular], [(sidecar, True)], own, {"cpu": 4})

    assert (regular, sidecar, own) == ({"cpu": 1}, {"cpu": 2}, {"cpu": 3})
