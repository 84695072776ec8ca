"""What is not honoured in a pod is found and named."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from scheduler.model.pods.pod_fields import (
    ContainerFields,
    SpecFields,
    VolumeFields,
    unsupported,
)
from tests.pod_field_use import TABLE, Use

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone"}

#: For each unsupported row: a spec with exactly that field, and the paths that must be named.
REFUSED: dict[tuple[str, str], list[tuple[dict[str, Any], str]]] = {
    ("PodSpec", "workloadRef"): [
        ({"workloadRef": {"name": "w", "podGroup": "g"}}, "spec.workloadRef")
    ],
    ("TopologySpreadConstraint", "whenUnsatisfiable"): [
        (
            {"topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "FutureMode"}]},
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        ),
    ],
}

ORDINARY: dict[str, Any] = {
    "schedulerName": "gpu-scheduler",
    "nodeSelector": {"zone": "a"},
    "hostNetwork": True,
    "hostUsers": True,
    "serviceAccountName": "default",
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            },
            PREFERRED: [{"weight": 1, "preference": {"matchFields": []}}],
        },
        "podAffinity": {},
        "podAntiAffinity": {REQUIRED: [], PREFERRED: []},
    },
    "tolerations": [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "gpu-scheduler"},
        {"key": "other"},
    ],
    "volumes": [
        {"name": "kube-api-access", "projected": {"sources": [{"downwardAPI": {}}]}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
    ],
    "initContainers": [{"name": "i", "restartPolicy": "Always"}],
    "containers": [
        {
            "name": "c",
            "image": "cuda",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
            "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}],
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch", "readOnly": True}],
        }
    ],
    "topologySpreadConstraints": [],
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
}


def decoded(spec: dict[str, Any]) -> SpecFields:
    """The spec as it comes over the wire."""
    return msgspec.json.decode(json.dumps(spec), type=SpecFields)


def test_every_unsupported_row_has_a_pod_that_shows_it() -> None:
    """A row "rejected" needs a rejection in the code."""
    rows = {
        (name, prop)
        for name, uses in TABLE.items()
        for prop, use in uses.items()
        if use is Use.UNSUPPORTED
    }
    assert set(REFUSED) == rows


@pytest.mark.parametrize(
    ("spec", "path"),
    [pytest.param(*case, id=case[1]) for cases in REFUSED.values() for case in cases],
)
def test_exactly_that_field_is_named(spec: dict[str, Any], path: str) -> None:
    """A pod with one unsupported field gets exactly that one named."""
    assert unsupported(decoded(spec)) == (path,)
    assert unsupported(decoded(ORDINARY | spec)) == (path,)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="empty"),
        pytest.param(ORDINARY, id="ordinary"),
        pytest.param({"hostUsers": False}, id="user-namespace-of-its-own"),
        pytest.param({"hostNetwork": True}, id="host-network"),
        pytest.param({"affinity": {}, "volumes": [{"csi": {"driver": "d"}}]}, id="inline-csi"),
    ],
)
def test_ordinary_pod_has_no_unsupported_field(spec: dict[str, Any]) -> None:
    """Empty lists, and the fields that every pod has, are no reason."""
    assert unsupported(decoded(spec)) == ()


def test_several_fields_are_all_named_in_a_fixed_order() -> None:
    """The user fixes all of them at once."""
    spec = decoded(
        {
            "workloadRef": {"name": "w"},
            "topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "FutureMode"}],
        }
    )
    assert unsupported(spec) == (
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        "spec.workloadRef",
    )


def test_node_affinity_decodes_in_full() -> None:
    """What is honoured keeps its content."""
    affinity = decoded(ORDINARY).affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    assert affinity.node_affinity.required is not None
    (term,) = affinity.node_affinity.required.node_selector_terms
    assert term.match_expressions[0].values == ("a",)
    assert [term.weight for term in affinity.node_affinity.preferred] == [1]


class WireContainer(ContainerFields, frozen=True, kw_only=True):
    """A wire type as the watch stage makes them."""

    name: str = ""


class WireSpec(SpecFields, frozen=True, kw_only=True):
    """The same for the spec: its own fields, and containers with more in them."""

    containers: tuple[WireContainer, ...] = ()
    node_name: str = ""


def test_api_types_inherit_the_fields() -> None:
    """The names on the wire are inherited too."""
    text = b'{"nodeName": "n", "containers": [{"name": "c"}], "workloadRef": {"name": "w"}}'
    spec = msgspec.json.decode(text, type=WireSpec)
    assert (spec.node_name, spec.containers[0].name) == ("n", "c")
    assert unsupported(spec) == ("spec.workloadRef",)


def test_skipped_fields_hold_no_reference_to_the_buffer() -> None:
    """A long list's bytes must not stay in memory because of one claim template."""
    (volume,) = decoded({"volumes": [{"name": "v", "ephemeral": {"spec": {}}}]}).volumes
    assert volume == VolumeFields(name="v", ephemeral=volume.ephemeral)
    assert msgspec.to_builtins(volume.ephemeral) == {}
