"""Taints, node affinity and label selectors against the answers of the real Kubernetes code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.model.selector import (
    LabelSelector,
    PreferredTerm,
    Requirement,
    Taint,
    Term,
    Toleration,
    matches_any,
    matches_labels,
    matches_term,
    tolerates,
    untolerated,
)


def golden(name: str) -> dict[str, list[Any]]:
    """The tables that the real code printed."""
    path = Path(__file__).parents[2] / "golden" / f"{name}.json"
    tables: dict[str, list[Any]] = json.loads(path.read_text(encoding="utf-8"))
    return tables


TOLERATIONS = golden("tolerations")
AFFINITY = golden("nodeaffinity")
LABELS = golden("labelselectors")
TAINTS = msgspec.convert(TOLERATIONS["taints"], tuple[Taint, ...])


def rows(table: list[Any], key: str) -> list[Any]:
    """One test per golden row, named by its input."""
    return [pytest.param(row, id=ascii(json.dumps(row[key]))[1:90]) for row in table]


def test_golden_files_have_enough_cases() -> None:
    """Truncated golden files, or ones with one answer only, would otherwise pass."""
    for table, answers in (
        (TOLERATIONS["taintsRows"], ("default", "comparing")),
        (AFFINITY["nodesRows"], ("matches",)),
        (LABELS["labelsRows"], ("matches",)),
    ):
        all_answers = [answer for row in table for key in answers for answer in row[key]]
        assert len(all_answers) > 400
        assert all_answers.count(True) > 50


@pytest.mark.parametrize("row", rows(TOLERATIONS["taintsRows"], "toleration"))
def test_a_toleration_covers_the_taints_it_really_covers(row: dict[str, Any]) -> None:
    """With the comparing operators off, which is the default, and on."""
    toleration = msgspec.convert(row["toleration"], Toleration)
    assert [tolerates(toleration, taint) for taint in TAINTS] == row["default"]
    comparing = [tolerates(toleration, taint, compare_numbers=True) for taint in TAINTS]
    assert comparing == row["comparing"]


@pytest.mark.parametrize("row", rows(TOLERATIONS["lists"], "tolerations"))
def test_the_first_untolerated_taint_is_found(row: dict[str, Any]) -> None:
    """Taints that only make a node less welcome are passed over."""
    taints = msgspec.convert(row["taints"], tuple[Taint, ...])
    tolerations = msgspec.convert(row["tolerations"], tuple[Toleration, ...])
    expected = taints[row["untolerated"]] if row["untolerated"] >= 0 else None
    assert untolerated(taints, tolerations) == expected


def test_the_effects_that_count_can_be_chosen() -> None:
    """A score needs PreferNoSchedule alone, with the comparing operators if they are on."""
    taints = (Taint("a", "1", "NoSchedule"), Taint("b", "2", "PreferNoSchedule"))
    assert untolerated(taints, (), ("PreferNoSchedule",)) == taints[1]
    above = (Toleration("b", "Gt", "1"),)
    assert untolerated(taints, above, ("PreferNoSchedule",)) == taints[1]
    assert untolerated(taints, above, ("PreferNoSchedule",), compare_numbers=True) is None


@pytest.mark.contract("S4-9")
@pytest.mark.parametrize("row", rows(AFFINITY["nodesRows"], "terms"))
def test_terms_match_the_nodes_they_really_match(row: dict[str, Any]) -> None:
    """Terms are ORed; an empty or unreadable one matches nothing and spoils nothing."""
    terms = msgspec.convert(row["terms"], tuple[Term, ...])
    nodes = [(node["labels"], node["name"]) for node in AFFINITY["nodes"]]
    assert [matches_any(terms, labels, name) for labels, name in nodes] == row["matches"]
    if len(terms) == 1:
        assert [matches_term(terms[0], *node) for node in nodes] == row["matches"]


@pytest.mark.parametrize("row", rows(LABELS["labelsRows"], "selector"))
def test_a_label_selector_matches_what_it_really_matches(row: dict[str, Any]) -> None:
    """No selector matches nothing, an empty one everything, an unreadable one nothing."""
    selector = msgspec.convert(row["selector"], LabelSelector | None)
    assert [matches_labels(selector, labels) for labels in LABELS["labels"]] == row["matches"]


def test_the_structs_decode_from_what_the_api_sends() -> None:
    """Fields that do not matter to a decision are passed over."""
    text = b"""{"weight": 5, "preference": {"matchExpressions":
        [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}}"""
    assert msgspec.json.decode(text, type=PreferredTerm) == PreferredTerm(
        5,
        Term(
            (Requirement("zone", "In", ("a", "b")),),
            (Requirement("metadata.name", "NotIn", ("n",)),),
        ),
    )
    text = b'{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}'
    assert msgspec.json.decode(text, type=Toleration) == Toleration("k", "Exists", "", "NoExecute")
    text = b'{"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}'
    assert msgspec.json.decode(text, type=Taint) == Taint("k", "", "NoSchedule")
    text = b'{"matchLabels": {"a": "b"}}'
    assert msgspec.json.decode(text, type=LabelSelector) == LabelSelector({"a": "b"})


def test_empty_selectors_are_independent() -> None:
    """Each selector gets its own default mapping."""
    LabelSelector().match_labels["a"] = "b"
    assert LabelSelector() == LabelSelector({}, ())
