"""Matches nodes by labels and taints, exactly as Kubernetes does.

Mirrors ``k8s.io/component-helpers/scheduling/corev1`` (taints, node affinity) and
``k8s.io/apimachinery/pkg/labels`` (label selectors); ``tests/golden`` has the real results. The
structs decode directly from the API's JSON and contain only the fields of decisions.

Must never: raise for an invalid selector. An invalid node selector term matches no node, the other
terms still count; an invalid label selector matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
#: Effects that exclude a pod from a node; PreferNoSchedule only adds a penalty.
HARD_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)
#: Taints of this prefix come from the node's condition: cordoned, not ready, short of memory.
CONDITION_TAINTS: Final = "node.kubernetes.io/"

_NODE_NAME_FIELD: Final = "metadata.name"
_ALNUM: Final = "[A-Za-z0-9]"
_NAME: Final = re.compile(f"{_ALNUM}(?:[-A-Za-z0-9_.]{{0,61}}{_ALNUM})?")
_DNS_LABEL: Final = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DOMAIN: Final = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_DOMAIN_LENGTH: Final = 253
# Go's strconv.ParseInt accepts a sign and leading zeros; comparing tolerations accept neither.
_INTEGER: Final = re.compile(r"[+-]?0*([0-9]{1,19})")
_CANONICAL_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64: Final = range(-(2**63), 2**63)
_CACHE_SIZE: Final = 4096


class Taint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""

    @property
    def is_hard(self) -> bool:
        """Whether it excludes pods without a toleration."""
        return self.effect in HARD_EFFECTS

    @property
    def is_of_condition(self) -> bool:
        """Whether it comes from the node's condition, so that no pod should tolerate it."""
        return self.key.startswith(CONDITION_TAINTS)


#: The taint of a cordoned node.
CORDON: Final = Taint(key=CONDITION_TAINTS + "unschedulable", effect=NO_SCHEDULE)


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A toleration of a pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Requirement(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One comparison of a label, or of a field of the node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class Term(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Requirements on one node, all of which must hold."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class PreferredTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A term that adds its weight to the score of the nodes it matches."""

    weight: int = 0
    preference: Term = Term()


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Pairs and requirements on an object's labels, all of which must hold."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()


def tolerates(toleration: Toleration, taint: Taint, *, compare_numbers: bool = False) -> bool:
    """Whether one toleration tolerates one taint.

    ``compare_numbers`` is the feature gate TaintTolerationComparisonOperators (off by default in
    every release so far): without it the operators Lt and Gt match nothing.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt":
            return compare_numbers and _compares(toleration, taint)
    return False


def untolerated(
    taints: Iterable[Taint],
    tolerations: Collection[Toleration],
    effects: Collection[str] = HARD_EFFECTS,
    *,
    compare_numbers: bool = False,
) -> Taint | None:
    """The first taint of these effects that no toleration tolerates."""
    for taint in taints:
        if taint.effect in effects and not any(
            tolerates(toleration, taint, compare_numbers=compare_numbers)
            for toleration in tolerations
        ):
            return taint
    return None


def matches_term(term: Term, labels: Mapping[str, str], node_name: str) -> bool:
    """Whether a node meets every requirement of a term; an empty term matches no node."""
    if not (term.match_expressions or term.match_fields) or not _is_sound(term):
        return False
    if not all(holds(requirement, labels) for requirement in term.match_expressions):
        return False
    if not node_name:
        # Same as nodeaffinity.go: a node without a name has no fields to compare.
        return True
    return all(_field_holds(requirement, node_name) for requirement in term.match_fields)


def matches_any(terms: Iterable[Term], labels: Mapping[str, str], node_name: str) -> bool:
    """Whether a node matches one of the terms; no terms match no node."""
    return any(matches_term(term, labels, node_name) for term in terms)


def matches_labels(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels match a selector: none matches nothing, an empty one matches everything."""
    if selector is None or not is_sound_label_selector(selector):
        return False
    return all(holds(requirement, labels) for requirement in selector.match_expressions) and all(
        labels.get(key) == wanted for key, wanted in selector.match_labels.items()
    )


def is_sound_label_selector(selector: LabelSelector) -> bool:
    """Whether Kubernetes can parse a label selector; one that it cannot parse matches nothing."""
    return all(
        requirement.operator not in ("Gt", "Lt") and _is_sound_expression(requirement)
        for requirement in selector.match_expressions
    ) and all(
        is_label_key(key) and is_label_value(wanted)
        for key, wanted in selector.match_labels.items()
    )


@lru_cache(maxsize=_CACHE_SIZE)
def is_label_key(key: str) -> bool:
    """Whether a text may be the key of a label: a name, optionally after a domain and a slash."""
    domain, slash, name = key.rpartition("/")
    if slash and (len(domain) > _DOMAIN_LENGTH or _DOMAIN.fullmatch(domain) is None):
        return False
    return _NAME.fullmatch(name) is not None


@lru_cache(maxsize=_CACHE_SIZE)
def is_label_value(value: str) -> bool:
    """Whether a text may be the value of a label."""
    return not value or _NAME.fullmatch(value) is not None


@lru_cache(maxsize=_CACHE_SIZE)
def _is_sound(term: Term) -> bool:
    """Whether Kubernetes can parse the term; an invalid term matches nothing."""
    return all(map(_is_sound_expression, term.match_expressions)) and all(
        requirement.operator in ("In", "NotIn") and len(requirement.values) == 1
        for requirement in term.match_fields
    )


@lru_cache(maxsize=_CACHE_SIZE)
def _is_sound_expression(requirement: Requirement) -> bool:
    values = requirement.values
    match requirement.operator:
        case "In" | "NotIn":
            countable = bool(values)
        case "Exists" | "DoesNotExist":
            countable = not values
        case "Gt" | "Lt":
            countable = len(values) == 1 and _integer(values[0]) is not None
        case _:
            countable = False
    return countable and is_label_key(requirement.key) and all(map(is_label_value, values))


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a valid requirement."""
    actual = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return actual is not None and actual in requirement.values
        case "NotIn":
            return actual is None or actual not in requirement.values
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
    number, bound = _integer(actual or ""), _integer(requirement.values[0])
    if number is None or bound is None:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def _field_holds(requirement: Requirement, node_name: str) -> bool:
    """Whether a node's field satisfies a valid requirement; an unknown field is empty."""
    actual = node_name if requirement.key == _NODE_NAME_FIELD else ""
    return (actual == requirement.values[0]) is (requirement.operator == "In")


def _compares(toleration: Toleration, taint: Taint) -> bool:
    if not all(map(_CANONICAL_INTEGER.fullmatch, (toleration.value, taint.value))):
        return False
    bound, actual = int(toleration.value), int(taint.value)
    if bound not in _INT64 or actual not in _INT64:
        return False
    return actual < bound if toleration.operator == "Lt" else actual > bound


def _integer(text: str) -> int | None:
    """The number that Go's ParseInt parses in base 10 and 64 bits, or none."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    number = -int(match[1]) if text[0] == "-" else int(match[1])
    return number if number in _INT64 else None
