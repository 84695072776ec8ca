"""The fields of a pod that choose nodes, as the API server checks them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gpuctl.simulate.manifests import Raw, object_of, text_of
from gpuctl.simulate.validation.problem import REQUIRED, Problem, items, one_of, strings
from scheduler.model.selector import is_label_key, is_label_value

_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")
_COMPARING: Final = ("Gt", "Lt")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_TERMS: Final = "nodeSelectorTerms"
_HARD: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SOFT: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHTS: Final = range(1, 101)


def problems(spec: Raw, path: str) -> Iterator[Problem]:
    """Those of the selectors, the affinity, the tolerations and the spread at ``path``."""
    yield from labels(spec, "nodeSelector", path)
    for at, toleration in items(spec, "tolerations", path):
        yield from _toleration(toleration, f"{at}.")
    affinity = object_of(spec.get("affinity"))
    yield from _node_affinity(object_of(affinity.get("nodeAffinity")), f"{path}affinity.")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity(object_of(affinity.get(kind)), f"{path}affinity.{kind}.")
    for at, constraint in items(spec, "topologySpreadConstraints", path):
        yield from _spread(constraint, f"{at}.")


def labels(holder: Raw, field: str, path: str) -> Iterator[Problem]:
    """Those of the keys and values of labels."""
    for key, value in strings(holder, field):
        if not is_label_key(key):
            yield Problem(f"{path}{field}", f"{key!r} is not a key of a label")
        if not is_label_value(value):
            yield Problem(f"{path}{field}", f"{value!r} is not a value of a label")


def selector(holder: Raw, field: str, path: str) -> Iterator[Problem]:
    """Those of a label selector."""
    chosen = object_of(holder.get(field))
    yield from labels(chosen, "matchLabels", f"{path}{field}.")
    for at, requirement in items(chosen, "matchExpressions", f"{path}{field}."):
        yield from _requirement(requirement, f"{at}.", ())


def _toleration(toleration: Raw, path: str) -> Iterator[Problem]:
    key, value = text_of(toleration.get("key")), text_of(toleration.get("value"))
    operator = text_of(toleration.get("operator"))
    if key and not is_label_key(key):
        yield Problem(f"{path}key", f"{key!r} is not a key of a taint")
    if not key and operator != "Exists":
        yield Problem(f"{path}operator", "must be Exists, because the key is empty")
    if operator == "Exists" and value:
        yield Problem(f"{path}operator", "is Exists, which excludes a value")
    if operator in ("", "Equal") and not is_label_value(value):
        yield Problem(f"{path}operator", f"{value!r} is not a value of a taint")
    if operator not in ("", "Equal", "Exists", "Lt", "Gt"):
        yield Problem(f"{path}operator", f"{operator!r} is not one of Equal, Exists")
    if toleration.get("effect"):
        yield from one_of(toleration, "effect", _EFFECTS, path)
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        yield Problem(f"{path}effect", "must be NoExecute, because tolerationSeconds is set")


def _node_affinity(affinity: Raw, path: str) -> Iterator[Problem]:
    path = f"{path}nodeAffinity."
    if _HARD in affinity:
        hard = object_of(affinity.get(_HARD))
        if not hard.get(_NODE_TERMS):
            yield Problem(f"{path}{_HARD}.{_NODE_TERMS}", REQUIRED)
        for at, term in items(hard, _NODE_TERMS, f"{path}{_HARD}."):
            yield from _expressions(term, f"{at}.")
    for at, term in items(affinity, _SOFT, path):
        yield from _weight(term, f"{at}.")
        yield from _expressions(object_of(term.get("preference")), f"{at}.preference.")


def _expressions(term: Raw, path: str) -> Iterator[Problem]:
    for at, requirement in items(term, "matchExpressions", path):
        yield from _requirement(requirement, f"{at}.", _COMPARING)


def _requirement(requirement: Raw, path: str, comparing: tuple[str, ...]) -> Iterator[Problem]:
    key, operator = text_of(requirement.get("key")), text_of(requirement.get("operator"))
    values: Any = requirement.get("values") or ()
    if operator in _WITH_VALUES:
        if not values:
            yield Problem(f"{path}values", f"is required, because the operator is {operator}")
    elif operator in _WITHOUT_VALUES:
        if values:
            yield Problem(f"{path}values", f"must be empty, because the operator is {operator}")
    elif operator in comparing:
        if len(values) != 1:
            yield Problem(f"{path}values", f"must be one value, because the operator is {operator}")
    else:
        known = ", ".join((*_WITH_VALUES, *_WITHOUT_VALUES, *comparing))
        yield Problem(f"{path}operator", f"{operator!r} is not one of {known}")
    if not is_label_key(key):
        yield Problem(f"{path}key", f"{key!r} is not a key of a label")


def _pod_affinity(affinity: Raw, path: str) -> Iterator[Problem]:
    for at, term in items(affinity, _HARD, path):
        yield from _pod_term(term, f"{at}.")
    for at, weighted in items(affinity, _SOFT, path):
        yield from _weight(weighted, f"{at}.")
        yield from _pod_term(object_of(weighted.get("podAffinityTerm")), f"{at}.podAffinityTerm.")


def _pod_term(term: Raw, path: str) -> Iterator[Problem]:
    yield from selector(term, "labelSelector", path)
    if not is_label_key(text_of(term.get("topologyKey"))):
        yield Problem(f"{path}topologyKey", "must be the key of a label of nodes")


def _weight(term: Raw, path: str) -> Iterator[Problem]:
    if term.get("weight") not in _WEIGHTS:
        yield Problem(f"{path}weight", "must be a number from 1 to 100")


def _spread(constraint: Raw, path: str) -> Iterator[Problem]:
    skew = constraint.get("maxSkew", 0)
    if isinstance(skew, int) and skew < 1:
        yield Problem(f"{path}maxSkew", "must be 1 or more")
    if not constraint.get("topologyKey"):
        yield Problem(f"{path}topologyKey", REQUIRED)
    if not constraint.get("whenUnsatisfiable"):
        yield Problem(f"{path}whenUnsatisfiable", REQUIRED)
    allowed = ("DoNotSchedule", "ScheduleAnyway")
    yield from one_of(constraint, "whenUnsatisfiable", allowed, path)
    yield from selector(constraint, "labelSelector", path)
