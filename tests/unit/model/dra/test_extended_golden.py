"""The claims for extended resources against those that kube-scheduler creates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.model.dra.extended_resources import extended_requests
from tests.builders import container, pod

ROWS: Final[list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[3] / "golden" / "extendedresources.json").read_text(encoding="utf-8")
)


def made(one: dict[str, Any]) -> dict[str, Any]:
    """A container of a row."""
    sidecar = one.get("sidecar", False)
    return container(one["name"], requests=one["requests"], sidecar=sidecar)


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_claim_is_that_of_kube_scheduler(row: dict[str, Any]) -> None:
    init = [made(one) for one in row["containers"] if one.get("init")]
    containers = [made(one) for one in row["containers"] if not one.get("init")]

    asked = extended_requests(pod(init=init, containers=containers).containers, row["classes"])

    exact = [one.exactly for one in asked.requests]
    assert [[one.name, one.class_name, one.count] for one in exact if one] == row["requests"]
    mappings = [[one.container, one.resource, one.request] for one in asked.mappings]
    assert mappings == row["mappings"]
