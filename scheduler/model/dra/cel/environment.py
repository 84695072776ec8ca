"""The CEL environment of Dynamic Resource Allocation, by the package ``cel-expr-python``.

It is imported with the first selector, so that a cluster without claims pays nothing for it.
``k8s.io/dynamic-resource-allocation/cel`` is the original.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from scheduler.model.dra.cel import lists, quantities, versions

if TYPE_CHECKING:
    import cel_expr_python.cel as cel

#: The extensions of the language that Kubernetes has too.
_EXTENSIONS: Final = """
extensions:
  - {name: bindings}
  - {name: lists}
  - {name: optional}
  - {name: sets}
  - {name: strings, version: 2}
  - {name: two-var-comprehensions}
"""


@lru_cache(maxsize=1)
def environment() -> cel.Env:
    """The environment; ImportError without the package."""
    import cel_expr_python.cel as cel

    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
        variables={"device": cel.Type.DYN},
        extensions=[cel.CelExtension("kubernetes", _functions(cel))],
    )


def _functions(cel: Any) -> list[cel.FunctionDecl]:
    """The libraries of Kubernetes; a quantity and a version are bytes.

    Their comparisons are operators (``selector_text``).
    """
    kind = cel.Type
    one, pair, listed = [kind.BYTES], [kind.BYTES, kind.BYTES], [kind.LIST]
    element = [kind.LIST, kind.DYN]
    text, texts = [kind.STRING], [kind.STRING, kind.BOOL]
    calls: tuple[tuple[str, Any, tuple[list[Any], ...], Callable[..., Any]], ...] = (
        ("quantity", kind.BYTES, (text,), quantities.quantity),
        ("isQuantity", kind.BOOL, (text,), quantities.is_quantity),
        ("sign", kind.INT, (one,), quantities.sign),
        ("semver", kind.BYTES, (text, texts), versions.semver),
        ("isSemver", kind.BOOL, (text, texts), versions.is_semver),
    )
    methods: tuple[tuple[str, Any, tuple[list[Any], ...], Callable[..., Any]], ...] = (
        ("isInteger", kind.BOOL, (one,), quantities.is_integer),
        ("asInteger", kind.INT, (one,), quantities.as_integer),
        ("asApproximateFloat", kind.DOUBLE, (one,), quantities.as_approximate_float),
        ("add", kind.BYTES, (pair, [kind.BYTES, kind.INT]), quantities.add),
        ("sub", kind.BYTES, (pair, [kind.BYTES, kind.INT]), quantities.sub),
        ("major", kind.INT, (one,), versions.major),
        ("minor", kind.INT, (one,), versions.minor),
        ("patch", kind.INT, (one,), versions.patch),
        ("includes", kind.BOOL, ([kind.DYN, kind.DYN],), lists.includes),
        ("indexOf", kind.INT, (element,), lists.index_of),
        ("lastIndexOf", kind.INT, (element,), lists.last_index_of),
        ("isSorted", kind.BOOL, (listed,), lists.is_sorted),
        ("sum", kind.DYN, (listed,), lists.total),
        ("min", kind.DYN, (listed,), lists.minimum),
        ("max", kind.DYN, (listed,), lists.maximum),
    )
    return [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    f"{name}_{number}",
                    return_type=result,
                    parameters=parameters,
                    is_member=is_method,
                    impl=function,
                )
                for number, parameters in enumerate(overloads)
            ],
        )
        for is_method, table in ((False, calls), (True, methods))
        for name, result, overloads, function in table
    ]
