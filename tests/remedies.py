"""Applies the edits of a remedy to manifests, as a user who reads them would."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from scheduler.decide.remedy.edit import Edit, EditKind

Json = dict[str, Any]


def applied(documents: list[Json], pod: Json, edits: Iterable[Edit]) -> tuple[list[Json], Json]:
    """The other objects of the cluster and the pod, after the edits; the arguments stay."""
    documents, pod = copy.deepcopy(documents), copy.deepcopy(pod)
    for edit in edits:
        documents = _in_cluster(documents, edit)
        _in_pod(pod, edit)
    return documents, pod


def _in_cluster(documents: list[Json], edit: Edit) -> list[Json]:
    match edit.kind:
        case EditKind.UNCORDON:
            [node] = [one for one in documents if one["metadata"]["name"] == edit.field]
            node["spec"]["unschedulable"] = False
        case EditKind.DELETE_POD:
            return [
                one
                for one in documents
                if one["kind"] != "Pod" or edit.field != "/".join(_key(one["metadata"]))
            ]
    return documents


def _key(metadata: Json) -> tuple[str, str]:
    return metadata["namespace"], metadata["name"]


def _in_pod(pod: Json, edit: Edit) -> None:
    if edit.kind in IN_POD:
        IN_POD[edit.kind](pod, edit)


def _request(pod: Json, edit: Edit) -> None:
    for amounts in _amounts(pod):
        amounts.pop(edit.field, None)
        if edit.value != "0":
            amounts[edit.field] = edit.value


def _replace(pod: Json, edit: Edit) -> None:
    for amounts in _amounts(pod):
        if edit.field in amounts:
            amounts[edit.value] = amounts.pop(edit.field)


def _annotate(pod: Json, edit: Edit) -> None:
    annotations = pod["metadata"]["annotations"]
    assert edit.field in annotations
    annotations.pop(edit.field)
    if edit.value:
        annotations[edit.field] = edit.value


def _unlabel(pod: Json, edit: Edit) -> None:
    assert pod["metadata"]["labels"].pop(edit.field) == edit.value


def _tolerate(pod: Json, edit: Edit) -> None:
    value, _, effect = edit.value.rpartition(":")
    taint = {"key": edit.field, "operator": "Equal", "value": value, "effect": effect}
    pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", ()), taint]


def _unselect(pod: Json, edit: Edit) -> None:
    assert pod["spec"]["nodeSelector"].pop(edit.field) == edit.value


def _spread(pod: Json, edit: Edit) -> None:
    for constraint in pod["spec"]["topologySpreadConstraints"]:
        constraint["whenUnsatisfiable"] = edit.value


def _remove(pod: Json, edit: Edit) -> None:
    _delete(pod, edit.field.split("."))


IN_POD: dict[EditKind, Callable[[Json, Edit], None]] = {
    EditKind.REQUEST: _request,
    EditKind.REPLACE: _replace,
    EditKind.ANNOTATE: _annotate,
    EditKind.LABEL: _unlabel,
    EditKind.TOLERATE: _tolerate,
    EditKind.SELECTOR: _unselect,
    EditKind.SPREAD: _spread,
    EditKind.REMOVE: _remove,
}


def _amounts(pod: Json) -> list[Json]:
    """The limits and requests of the only container."""
    [container] = pod["spec"]["containers"]
    return [container["resources"].setdefault(side, {}) for side in ("limits", "requests")]


def _delete(holder: Json, path: list[str]) -> None:
    key, *rest = path
    if not rest:
        del holder[key]
    elif key.endswith("[*]"):
        for one in holder[key.removesuffix("[*]")]:
            _delete(one, rest)
    else:
        _delete(holder[key], rest)
