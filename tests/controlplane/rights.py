"""What a program may do and what it did: the shipped roles beside the API server's audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.controlplane import ControlPlane
from tools.product import ROOT


def whole_lines(log: Path | None) -> Iterator[str]:
    """An audit log line by line; half a last line is not there yet."""
    assert log is not None, "the control plane was started with an audit log"
    with log.open(encoding="utf-8", newline="\n") as lines:
        yield from (line for line in lines if line.endswith("\n"))


def audited(cp: ControlPlane, user: str) -> list[dict[str, Any]]:
    """The API server's own record of what a user did."""
    events = [json.loads(line) for line in whole_lines(cp.audit_log)]
    return [event for event in events if event["user"]["username"] == user]


def used_rights(events: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """(group, resource, verb) of every request."""
    rights = set()
    for event in events:
        reference = event.get("objectRef", {})
        resource = reference.get("resource", "")
        if reference.get("subresource"):
            resource += "/" + reference["subresource"]
        rights.add((reference.get("apiGroup", ""), resource, event["verb"]))
    return rights


def granted_rights(manifest: str) -> set[tuple[str, str, str]]:
    """(group, resource, verb) of every rule in a file of ``cluster/``."""
    documents = yaml.safe_load_all((ROOT / "cluster" / manifest).read_text(encoding="utf-8"))
    rules = [rule for body in documents for rule in body.get("rules", [])]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
