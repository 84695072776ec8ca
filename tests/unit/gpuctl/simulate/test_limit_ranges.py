"""LimitRanges in the simulator: defaults, bounds, and a default that comes back."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.unit.gpuctl.cli import GPU, MIG_1G, MIG_2G, Json, gpuctl, node, pod, rows, spec


def limit_range(kind: str = "Container", **limits: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits"},
        "spec": {"limits": [{"type": kind, **limits}]},
    }


def two(*resources: str) -> Json:
    """A pod whose containers ask for one each."""
    containers = [
        {"name": f"c{at}", "image": "x", "resources": {"limits": {resource: 1}}}
        for at, resource in enumerate(resources)
    ]
    return pod("p", {**spec(), "containers": containers})


@pytest.mark.parametrize(
    ("limits", "requested"),
    [
        pytest.param({"default": {MIG_2G: "1"}}, {MIG_2G: 1}, id="a-default"),
        pytest.param({"max": {MIG_2G: 1}}, {MIG_2G: 1}, id="the-most-is-the-default"),
        pytest.param(
            {"default": {MIG_1G: "1"}, "max": {MIG_1G: "2"}},
            {MIG_1G: 1},
            id="the-default-goes-before-the-most",
        ),
    ],
)
def test_a_container_that_does_not_say_gets_the_default(limits: Json, requested: Json) -> None:
    bare, typed = pod("bare", spec()), pod("typed", spec(next(iter(requested))))

    found = rows(node("n", mig_2g=4, mig_1g=4), limit_range(**limits), bare, typed)

    assert [row["granted"] for row in found] == [requested, requested]
    assert [row["requested"] for row in found] == [requested, requested]


def test_default_of_another_namespace_or_of_pods_is_not_added() -> None:
    elsewhere = pod("elsewhere", spec(), namespace="other")
    of_pods = limit_range("Pod", default={MIG_1G: "1"})

    found = rows(node("n", mig_2g=4), limit_range(default={MIG_2G: "1"}), of_pods, elsewhere)

    assert found[0]["granted"] == {}
    assert found[0]["node"] == "n"


def test_default_that_returns_beside_the_smaller_tier_is_removed() -> None:
    """As on the API server, which calls the webhook a second time."""
    found = rows(
        node("n", mig_1g=1),
        limit_range(default={MIG_2G: "1"}, defaultRequest={MIG_2G: "1"}),
        pod("first", spec()),
        pod("second", spec()),
    )

    assert found[0]["requested"] == {MIG_2G: 1}
    assert (found[0]["node"], found[0]["granted"]) == ("n", {MIG_1G: 1})
    assert found[0]["reason"] == "2g.20gb not available, fell back to 1g.10gb"
    assert found[1]["node"] is None


@pytest.mark.parametrize(
    ("limits", "body", "words"),
    [
        pytest.param(
            limit_range(max={MIG_2G: "1"}),
            pod("p", spec(MIG_2G, 2)),
            f"maximum {MIG_2G} usage per Container is 1, but limit is 2",
            id="above-the-most",
        ),
        pytest.param(
            limit_range(min={GPU: 2}),
            pod("p", spec(GPU, 1)),
            f"minimum {GPU} usage per Container is 2, but request is 1",
            id="below-the-least",
        ),
        pytest.param(
            limit_range("Pod", max={MIG_2G: "1", "cpu": "1"}),
            two(MIG_2G, MIG_2G),
            f"maximum {MIG_2G} usage per Pod is 1, but limit is 2",
            id="the-whole-pod",
        ),
        pytest.param(
            limit_range("Pod", max={GPU: "1"}),
            pod("p", spec(MIG_2G, 1)),
            f"maximum {GPU} usage per Pod is 1.  No limit is specified",
            id="what-has-a-most-must-be-asked-for",
        ),
        pytest.param(
            limit_range(max={MIG_2G: "1", MIG_1G: "1"}),
            two(MIG_1G, MIG_2G),
            None,
            id="at-the-most",
        ),
        pytest.param(
            limit_range("Pod", max={MIG_2G: 1, MIG_1G: 1}),
            pod("p", spec(MIG_2G, 2)),
            f"[maximum {MIG_1G} usage per Pod is 1.  No limit is specified,"
            f" maximum {MIG_2G} usage per Pod is 1, but limit is 2]",
            id="two-bounds",
        ),
    ],
)
def test_a_pod_out_of_bounds_is_refused_in_the_api_servers_words(
    limits: Json, body: Json, words: str | None
) -> None:
    [row] = rows(node("n", mig_2g=4, mig_1g=4, gpu=4), limits, body)

    assert row["reason"] == (f"refused at admission: {words}" if words else None)


def test_what_a_tier_became_is_bounded_too() -> None:
    """The API server looks at the pod that the webhook made."""
    most = limit_range("Pod", max={MIG_2G: "1"})

    found = rows(node("n", mig_1g=3), most, pod("p", spec(MIG_2G, 1)))

    assert found[0]["reason"] == (
        f"refused at admission: maximum {MIG_2G} usage per Pod is 1.  No limit is specified"
    )


@pytest.mark.parametrize(
    ("limits", "where"),
    [
        pytest.param({"max": {GPU: "many"}}, f"spec.limits[0].max[{GPU}]", id="an-amount"),
        pytest.param({"max": [GPU]}, "spec.limits[0].max", id="a-list"),
    ],
)
def test_a_limit_range_that_cannot_be_read_is_one_line(limits: Any, where: str) -> None:
    result = gpuctl("simulate", "-", stdin=yaml.safe_dump(limit_range(**limits)))

    assert result.status == 1
    assert where in result.err
    assert result.err.count("\n") == 1
