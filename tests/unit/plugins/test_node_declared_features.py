"""NodeDeclaredFeatures: a pod goes only to nodes that declare every feature that it requires."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.node import Node
from scheduler.model.reasons.reason import sentence
from tests.builders import cluster, node, placed, pod, refused

ON_THE_HOST = "UserNamespacesHostNetworkSupport"
RESTARTS = "RestartAllContainersOnContainerExits"
USER_NAMESPACE: dict[str, Any] = {"hostNetwork": True, "hostUsers": False}
BOTH: dict[str, Any] = {
    **USER_NAMESPACE,
    "containers": [
        {"name": "a", "image": "a", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
    ],
}


def declares(name: str, *features: str) -> Node:
    return msgspec.structs.replace(node(name), declared_features=frozenset(features))


@pytest.mark.parametrize(
    ("spec", "features", "name"),
    [
        pytest.param(USER_NAMESPACE, [ON_THE_HOST], "b", id="the-feature"),
        pytest.param(USER_NAMESPACE, [ON_THE_HOST, "Other"], "b", id="more-than-required"),
        pytest.param(BOTH, [ON_THE_HOST, RESTARTS], "b", id="both-features"),
        pytest.param({}, [], "a", id="nothing-is-required"),
    ],
)
def test_a_pod_goes_to_the_node_that_declares_its_features(
    spec: dict[str, Any], features: list[str], name: str
) -> None:
    state = cluster(declares("a", "Other"), declares("b", *features))

    assert placed(state, pod(spec=spec)).node_name == name


def test_each_missing_feature_is_named() -> None:
    state = cluster(declares("a"), declares("b", ON_THE_HOST))

    assert sentence(refused(state, pod(spec=BOTH)).diagnosis) == (
        "0/2 nodes are available: 1 node(s) didn't match Pod's required features"
        f" ({RESTARTS}), 1 node(s) didn't match Pod's required features"
        f" ({RESTARTS}, {ON_THE_HOST})."
    )
