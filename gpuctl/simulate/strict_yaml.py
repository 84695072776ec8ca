"""A YAML loader with kubectl's dialect of YAML 1.1: no dates, no base 60 numbers.

A duplicate key is an error, as in the API server's strict decoding.
"""

from __future__ import annotations

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
