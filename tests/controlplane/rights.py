"""What a program may do and what it did: the shipped roles beside the API server's audit log."""

from __future__ import annotations

from typing import Any

import yaml

from tools.product import ROOT


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


def decisions(events: list[dict[str, Any]]) -> set[str]:
    """What the authorizer said; a busy API server refuses a request before it is asked."""
    key = "authorization.k8s.io/decision"
    return {event["annotations"][key] for event in events if key in event.get("annotations", {})}


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
