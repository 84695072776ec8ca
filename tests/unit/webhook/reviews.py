"""Builders of AdmissionReviews as the API server sends them."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.webhook.pods import pod

POD = {"group": "", "version": "v1", "resource": "pods"}


def request(**changes: Any) -> dict[str, Any]:
    """The creation of a pod, as the API server sends it."""
    return {
        "uid": "705ab4f5",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": POD,
        "operation": "CREATE",
        "namespace": "team-a",
        "object": pod(),
        "dryRun": False,
        **changes,
    }


def body(version: str = "admission.k8s.io/v1", **changes: Any) -> bytes:
    """A whole review."""
    review = {"apiVersion": version, "kind": "AdmissionReview", "request": request(**changes)}
    return json.dumps(review).encode()
