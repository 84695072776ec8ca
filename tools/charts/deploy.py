"""webhook/deploy/: the preset gpu-webhook of the chart as numbered plain manifests.

    00-namespace 01-rbac 02-service 03-deployment 04-webhook-config

The numbers give the order of installation. The registration is last:
webhook/scripts/generate-certs.sh replaces its CA_BUNDLE_PLACEHOLDER with the CA when it writes
04-webhook-config-patched.yaml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from tools.charts.copies import ROOT, SCHEDULER
from tools.charts.helm import template

FOLDER: Final = ROOT / "webhook" / "deploy"
NAMESPACE: Final = "gpu-webhook"
PLACEHOLDER: Final = "CA_BUNDLE_PLACEHOLDER"
HEAD: Final = (
    "# Written by `make charts` from charts/gpu-scheduler, preset ci/gpu-webhook-values.yaml.\n"
)
FILES: Final = {
    "00-namespace.yaml": ("Namespace", "CustomResourceDefinition"),
    "01-rbac.yaml": (
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "FlowSchema",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ),
    "02-service.yaml": ("Service", "NetworkPolicy"),
    "03-deployment.yaml": ("ConfigMap", "Secret", "Lease", "Deployment"),
    "04-webhook-config.yaml": ("MutatingWebhookConfiguration",),
}
VALUES: Final = (
    "namespace.create=true",
    "tests.enabled=false",
    "webhook.certificates.mode=existingSecret",
    f"webhook.caBundle={PLACEHOLDER}",
)


def everything() -> dict[Path, str]:
    """Path and text of each manifest."""
    words: list[str | Path] = [
        "--values",
        SCHEDULER / "ci/gpu-webhook-values.yaml",
        "--set",
        ",".join(VALUES),
    ]
    text = template(SCHEDULER, release="gpu-webhook", namespace=NAMESPACE, words=words)
    objects = [_plain(one) for one in yaml.safe_load_all(text) if one]
    result = {}
    for name, kinds in FILES.items():
        mine = sorted((one for one in objects if one["kind"] in kinds), key=_place(kinds))
        result[FOLDER / name] = HEAD + yaml.safe_dump_all(mine, sort_keys=False, width=100)
    left = {one["kind"] for one in objects} - {kind for kinds in FILES.values() for kind in kinds}
    assert not left, f"FILES says nothing of {', '.join(sorted(left))}"
    return result


def _plain(manifest: dict[str, Any]) -> dict[str, Any]:
    """The object without Helm's labels and annotations."""
    parts = [manifest["metadata"]]
    if manifest["kind"] == "Deployment":
        parts.append(manifest["spec"]["template"]["metadata"])
    for meta in parts:
        meta["labels"].pop("helm.sh/chart", None)
        meta["labels"].pop("app.kubernetes.io/managed-by", None)
    return manifest


def _place(kinds: tuple[str, ...]) -> Any:
    return lambda one: (kinds.index(one["kind"]), one["metadata"]["name"])
