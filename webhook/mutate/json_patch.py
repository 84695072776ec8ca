"""JSON Patch between two states of an object, and its application.

The webhook builds a changed pod beside the original, and ``difference`` computes the operations, so
a patch contains only real changes. It uses ``add`` (which sets a missing member and replaces a
present one) and ``remove`` of present members: unlike ``replace`` on a missing path, neither can
fail in the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Json = Any
Operation = dict[str, Json]

_END_OF_LIST: Final = "-"


class PatchError(ValueError):
    """An operation that does not apply, as in the API server."""


def difference(old: Json, new: Json, path: str = "") -> list[Operation]:
    """The operations that turn ``old`` into ``new``; equal parts are left out.

    >>> difference({"a": {"x/y": "1"}}, {"a": {"x/y": "2"}})
    [{'op': 'add', 'path': '/a/x~1y', 'value': '2'}]
    """
    if old is new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        return _members(old, new, path)
    if isinstance(old, list) and isinstance(new, list):
        return _items(old, new, path)
    if type(old) is type(new) and old == new:
        return []
    return [{"op": "add", "path": path, "value": new}]


def _members(old: Mapping[str, Json], new: Mapping[str, Json], path: str) -> list[Operation]:
    operations: list[Operation] = [
        {"op": "remove", "path": f"{path}/{escape(key)}"} for key in old if key not in new
    ]
    for key, value in new.items():
        if key not in old:
            operations.append({"op": "add", "path": f"{path}/{escape(key)}", "value": value})
        elif old[key] is not value:  # most of a pod is shared with the original
            operations += difference(old[key], value, f"{path}/{escape(key)}")
    return operations


def _items(old: Sequence[Json], new: Sequence[Json], path: str) -> list[Operation]:
    """Lists change in two ways here: items in place, and one item inserted at the front."""
    if len(new) == len(old):
        return [
            operation
            for position, (before, after) in enumerate(zip(old, new, strict=True))
            for operation in _item(before, after, f"{path}/{position}")
        ]
    if len(new) == len(old) + 1 and new[1:] == old:
        return [{"op": "add", "path": f"{path}/0", "value": new[0]}]
    return [{"op": "add", "path": path, "value": new}]


def _item(before: Json, after: Json, path: str) -> list[Operation]:
    """``add`` would insert into a list, so an item that is not an object is replaced in place."""
    if isinstance(before, dict) and isinstance(after, dict):
        return _members(before, after, path)
    return [] if before == after else [{"op": "replace", "path": path, "value": after}]


def escape(key: str) -> str:
    """A member's name as in a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def apply(document: Json, operations: Iterable[Operation]) -> Json:
    """The document after the operations, as strict as the API server; the input is not changed."""
    holder = {"": document}
    for operation in operations:
        holder = _applied(holder, operation, ["", *_keys(operation["path"])])
    return holder[""]


def _keys(path: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def _applied(parent: Json, operation: Operation, keys: list[str]) -> Json:
    """A copy of ``parent`` with the operation applied below it."""
    key, rest = keys[0], keys[1:]
    if isinstance(parent, dict):
        changed: Json = dict(parent)
        at: Any = key
        is_there = key in parent
    elif isinstance(parent, list):
        changed = list(parent)
        at = len(parent) if key == _END_OF_LIST else int(key)
        is_there = at < len(parent)
    else:
        raise PatchError(f"{operation['path']}: no object or list to look into for {key!r}")
    if rest:
        if not is_there:
            raise PatchError(f"{operation['path']}: {key!r} does not exist")
        changed[at] = _applied(parent[at], operation, rest)
        return changed
    return _changed(changed, operation, at, is_there)


def _changed(parent: Json, operation: Operation, at: Any, is_there: bool) -> Json:
    op = operation["op"]
    if op == "add" and isinstance(parent, list):
        if at > len(parent):
            raise PatchError(f"{operation['path']}: beyond the end of the list")
        parent.insert(at, operation["value"])
    elif op == "add" or (op == "replace" and is_there):
        parent[at] = operation["value"]
    elif op == "remove" and is_there:
        del parent[at]
    else:
        raise PatchError(f"{operation['path']}: {op} of something that does not exist")
    return parent
