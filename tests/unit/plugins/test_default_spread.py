"""kube-scheduler's system default constraints: the pods that they spread, and their place."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.settings import Settings
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline, pod_topology_spread
from tests.builders import cluster, node, placed, pod

CPU = {"cpu": "1", "memory": "1Gi"}
ON = Settings(default_spread=True)
OWN = {
    "topologyKey": "zone",
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "other"}},
}


def web(name: str = "web-1", owner: str = "Deployment/web", **fields: Any) -> Pod:
    labels = {"app": "web", **fields.pop("labels", {})}
    return pod(name, owner=owner, labels=labels, requests=CPU, **fields)


def place(wanted: Pod, settings: Settings, held: Pod, **small: Any) -> str:
    """The node of a pod beside a replica that is on the larger node."""
    hosts = {name: {"kubernetes.io/hostname": name, "zone": "z"} for name in ("large", "small")}
    nodes = [
        node("large", cpu="64", labels=hosts["large"]),
        node("small", cpu="8", labels=hosts["small"], **small),
    ]
    return placed(cluster(*nodes, held), wanted, default_pipeline(settings)).node_name


@pytest.mark.parametrize(
    ("wanted", "held", "name"),
    [
        pytest.param(web(), web("web-0", node="large"), "small", id="replica-set"),
        pytest.param(
            web(owner="StatefulSet/web", labels={"apps.kubernetes.io/pod-index": "1"}),
            web(
                "web-0",
                "StatefulSet/web",
                labels={"apps.kubernetes.io/pod-index": "0"},
                node="large",
            ),
            "small",
            id="stateful-set",
        ),
        pytest.param(
            web(), web("web-0", "Deployment/web@r2", node="large"), "large", id="another-revision"
        ),
        pytest.param(
            web(owner="Job/web"), web("web-0", "Job/web", node="large"), "large", id="job"
        ),
        pytest.param(
            web(), web("web-0", node="large", namespace="other"), "large", id="another-namespace"
        ),
        pytest.param(
            web(spec={"topologySpreadConstraints": [OWN]}),
            web("web-0", node="large"),
            "large",
            id="a-constraint-of-its-own",
        ),
    ],
)
def test_replicas_without_constraints_are_spread(wanted: Pod, held: Pod, name: str) -> None:
    assert place(wanted, ON, held) == name
    assert place(wanted, Settings(), held) == "large"


def test_default_spread_keeps_away_from_devices() -> None:
    assert place(web(), ON, web("web-0", node="large"), gpus=2) == "large"


def test_nodes_of_a_pod_with_gpus_are_not_compared() -> None:
    state = cluster(node())
    wanted = pod("train-1", owner="StatefulSet/train", labels={"app": "train"}, gpus=1)

    assert not pod_topology_spread.compares_nodes(state, wanted, ON)
    assert pod_topology_spread.compares_nodes(state, web(), ON)
    assert not pod_topology_spread.compares_nodes(state, web(), Settings())
