"""Gives the pods of the tests to one scheduler, by a MutatingAdmissionPolicy.

The tests' namespaces have the label ``e2e-framework``; critical pods are created in kube-system.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tools.controlplane import ControlPlane

Json = dict[str, Any]

NAME: Final = "steer-e2e-pods"
_VERSION: Final = "admissionregistration.k8s.io/v1"
_NAMESPACES: Final[dict[str, Json]] = {
    "tests": {"key": "e2e-framework", "operator": "Exists"},
    "system": {
        "key": "kubernetes.io/metadata.name",
        "operator": "In",
        "values": ["kube-system"],
    },
}


def steer(plane: ControlPlane, scheduler_name: str) -> None:
    """Let every pod that a test creates name this scheduler."""
    for manifest in manifests(scheduler_name):
        plane.kubectl("apply", "-f", "-", input=json.dumps(manifest))


def manifests(scheduler_name: str) -> list[Json]:
    """The policy and its bindings."""
    mutation = f'Object{{spec: Object.spec{{schedulerName: "{scheduler_name}"}}}}'
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    policy: Json = {
        "apiVersion": _VERSION,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConditions": [
                {
                    "name": "default",
                    "expression": "object.spec.schedulerName == 'default-scheduler'",
                }
            ],
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": mutation},
                }
            ],
        },
    }
    return [policy, *(_binding(name, one) for name, one in _NAMESPACES.items())]


def _binding(name: str, namespaces: Json) -> Json:
    return {
        "apiVersion": _VERSION,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": f"{NAME}-{name}"},
        "spec": {
            "policyName": NAME,
            "matchResources": {"namespaceSelector": {"matchExpressions": [namespaces]}},
        },
    }
