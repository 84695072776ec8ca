"""One change of a Kubernetes manifest: its place, and the replacement.

at: ValidatingAdmissionPolicy/gpu-scheduler-partitions      the object, by kind and name
find: text size(variables.removed) == 0               a part of a string; `change` replaces it
find: item pods/status pods/resize                    elements of one list; `drop` removes them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import yaml

from tools.mutants.mutation import DROP, NotFound


def mutated(text: str, at: str, find: str, change: str) -> str:
    """A manifest's text with one change; comments are lost."""
    objects = list(yaml.safe_load_all(text))
    found = [one for one in objects if one and f"{one['kind']}/{one['metadata']['name']}" == at]
    if len(found) != 1:
        raise NotFound(f"{at}: {len(found)} objects of this name instead of one")
    kind, _, rest = find.partition(" ")
    changes = list(_texts(found[0], rest, change) if kind == "text" else _items(found[0], rest))
    if len(changes) != 1:
        raise NotFound(f"{find!r} is there {len(changes)} times instead of once")
    changes[0]()
    return yaml.safe_dump_all(objects, sort_keys=False)


def _texts(node: Any, part: str, change: str) -> Iterator[Callable[[], None]]:
    for holder, key, value in _values(node):
        if isinstance(value, str) and part in value:
            yield partial(_put, holder, key, value.replace(part, "" if change == DROP else change))


def _items(node: Any, words: str) -> Iterator[Callable[[], None]]:
    names = set(words.split())
    for holder, key, value in _values(node):
        if isinstance(value, list) and names <= {each for each in value if isinstance(each, str)}:
            yield partial(_put, holder, key, [each for each in value if each not in names])


def _values(node: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Every value in an object, with the mapping or list that contains it and its key there."""
    for key in range(len(node)) if isinstance(node, list) else list(node):
        yield node, key, node[key]
        if isinstance(node[key], (dict, list)):
            yield from _values(node[key])


def _put(holder: Any, key: Any, value: Any) -> None:
    holder[key] = value
