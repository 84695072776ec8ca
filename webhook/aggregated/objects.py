"""The objects of the API group: discovery, Decision, DecisionList, Table and Status. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from scheduler.model.decisions.messages import (
    GROUP,
    NO_ANSWER,
    VERSION,
    NamespaceAnswer,
    PodDecision,
)
from scheduler.model.timestamps import age

API_VERSION: Final = f"{GROUP}/{VERSION}"
VERBS: Final = ("get", "list")

_COLUMNS: Final = (
    ("Pod", "name", 0, "The pod."),
    ("State", "", 0, "Pending or Scheduled."),
    ("Reason", "", 0, "The codes of the last rejection, those of the most nodes first."),
    ("Node", "", 0, "The node of a scheduled pod."),
    ("Age", "", 0, "The age of the pod."),
    ("Message", "", 1, "The message of the last rejection."),
)

Json = dict[str, Any]


def groups() -> Json:
    """The answer to ``GET /apis``."""
    group = {key: value for key, value in group_of().items() if key not in ("kind", "apiVersion")}
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}


def group_of() -> Json:
    """The group with its only version."""
    version = {"groupVersion": API_VERSION, "version": VERSION}
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": [version],
        "preferredVersion": version,
    }


def resources() -> Json:
    """The resources of the version."""
    decisions = {
        "name": "decisions",
        "singularName": "decision",
        "namespaced": True,
        "kind": "Decision",
        "verbs": list(VERBS),
    }
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [decisions],
    }


def decision(namespace: str, found: PodDecision) -> Json:
    """One decision; ``answer`` is the explanation, for one pod only."""
    fields = {"state": found.state, "reason": found.reason, "node": found.node}
    fields["message"] = found.message
    body: Json = {
        "apiVersion": API_VERSION,
        "kind": "Decision",
        "metadata": _meta(namespace, found),
    }
    body |= {name: value for name, value in fields.items() if value}
    if found.answer != NO_ANSWER:
        body["answer"] = found.answer
    return body


def decisions(namespace: str, answer: NamespaceAnswer) -> Json:
    """The decisions of a namespace."""
    return {
        "apiVersion": API_VERSION,
        "kind": "DecisionList",
        "metadata": _list_meta(answer),
        "items": [decision(namespace, one) for one in answer.decisions],
    }


def table(namespace: str, answer: NamespaceAnswer, included: str, now: datetime) -> Json:
    """The decisions as rows, for kubectl; ``included`` is what each row has of its object."""
    columns = [
        {"name": name, "type": "string", "format": form, "priority": priority, "description": text}
        for name, form, priority, text in _COLUMNS
    ]
    rows: list[Json] = []
    for one in answer.decisions:
        cells = [one.pod, one.state, one.reason, one.node, age(one.created, now), one.message]
        row: Json = {"cells": cells}
        if included == "Metadata":
            meta = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            row["object"] = {**meta, "metadata": _meta(namespace, one)}
        elif included == "Object":
            row["object"] = decision(namespace, one)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": _list_meta(answer),
        "columnDefinitions": columns,
        "rows": rows,
    }


def status(code: int, reason: str, message: str, retry_after_s: int = 0) -> Json:
    """The answer of a failed request; with ``retry_after_s`` clients make it again."""
    body: Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if retry_after_s:
        body["details"] = {"retryAfterSeconds": retry_after_s}
    return body


def encode(body: Json) -> bytes:
    """The bytes of an object."""
    return msgspec.json.encode(body)


def _meta(namespace: str, found: PodDecision) -> Json:
    created = {"creationTimestamp": found.created} if found.created else {}
    return {"name": found.pod, "namespace": namespace, "uid": found.uid, **created}


def _list_meta(answer: NamespaceAnswer) -> Json:
    return {"remainingItemCount": answer.left_out} if answer.left_out else {}
