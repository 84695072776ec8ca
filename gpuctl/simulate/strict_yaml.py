"""A YAML loader with kubectl's dialect of YAML 1.1: no dates, no base 60 numbers.

A duplicate key is an error, as in the API server's strict decoding.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import yaml

from scheduler.model.limits import DIGITS_OF_A_FILE_MAX

# PyYAML's wheels contain the C parser; a build from source may lack it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNKNOWN = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")


class Loader(_Base):  # type: ignore[misc]  # the base is chosen at import time
    """PyYAML's safe loader without dates, base 60 numbers and duplicate keys."""

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        """Build a dictionary; a duplicate key is an error."""
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode) or key.tag.endswith(":merge"):
                continue
            if key.value in seen:
                problem = f'duplicate key "{key.value}" in one object'
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        built: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return built


def _integer(loader: Any, node: yaml.ScalarNode) -> object:
    if len(node.value) > DIGITS_OF_A_FILE_MAX:  # Python refuses some thousand digits
        problem = f"a number of more than {DIGITS_OF_A_FILE_MAX} digits"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    return node.value if ":" in node.value else loader.construct_yaml_int(node)


def _float(loader: Any, node: yaml.ScalarNode) -> object:
    return node.value if ":" in node.value else loader.construct_yaml_float(node)


Loader.add_constructor("tag:yaml.org,2002:int", _integer)
Loader.add_constructor("tag:yaml.org,2002:float", _float)
Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _UNKNOWN]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def line_of(content: bytes, number: int, path: Iterable[str | int]) -> int | None:
    """The line of a field in a document of a file, both counted from 1; None if it has none."""
    nodes = _nodes(content)
    node = nodes[number - 1] if number <= len(nodes) else None
    line = None
    for step in path:
        found = _member(node, step)
        if found is None:
            return None
        mark, node = found
        line = mark.line + 1
    return line


@lru_cache(maxsize=1)
def _nodes(content: bytes) -> tuple[yaml.Node, ...]:
    return tuple(yaml.compose_all(content, Loader))


def _member(node: yaml.Node | None, step: str | int) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        item = node.value[step] if step < len(node.value) else None
        return (item.start_mark, item) if item is not None else None
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == step:
            return key.start_mark, value
    return None
