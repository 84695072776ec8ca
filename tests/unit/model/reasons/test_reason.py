"""The sentence people read: kube-scheduler's, with our numbers, and no comma but its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.model.reasons.reason import Diagnosis, Reason, ReasonCode, RequeueCause, sentence
from scheduler.plugins import REASON_CODES
from tests.builders import GPU, MIG_1G, MIG_2G

GOLDEN = json.loads((Path(__file__).parents[3] / "golden" / "fiterror.json").read_text())

#: Rows about parts of kube-scheduler's sentence that this scheduler has no use for yet.
NEVER_OURS = ("postFilter", "absent")


def ours(row: dict[str, Any]) -> bool:
    return row["total"] > 0 and not any(part in row for part in NEVER_OURS)


def diagnosis(row: dict[str, Any]) -> Diagnosis:
    """The same refusals as values of ours: one name per node of a group."""
    nodes: dict[str, tuple[Reason, ...]] = {}
    for number, group in enumerate(row["groups"]):
        reasons = tuple(Reason(code=REASON_CODES["TAINT"], text=text) for text in group["reasons"])
        nodes |= {f"n{number}-{count}": reasons for count in range(group["nodes"])}
    general = None
    if "preFilter" in row:
        general = Reason(code=REASON_CODES["UNSUPPORTED"], text=row["preFilter"])
    return Diagnosis(total=row["total"], nodes=nodes, general=general)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["message"][:60]) for row in GOLDEN["rows"] if ours(row)]
)
def test_the_sentence_is_kube_schedulers_own(row: dict[str, Any]) -> None:
    assert sentence(diagnosis(row)) == row["message"]


def test_golden_rows_are_compared() -> None:
    """A filter that lets everything through would make the test above empty."""
    assert sum(map(ours, GOLDEN["rows"])) > 20


def test_no_nodes_at_all_has_a_sentence_of_its_own() -> None:
    assert sentence(Diagnosis(total=0)) == GOLDEN["texts"][0]["noNodes"]


def insufficient(resource: str, need: int, have: int) -> tuple[Reason, ...]:
    text = f"Insufficient {resource}"
    return (
        Reason(
            code=REASON_CODES["INSUFFICIENT"], text=text, resource=resource, need=need, have=have
        ),
    )


NUMBERS = [
    pytest.param(
        {"a": insufficient(GPU, 2, 0), "b": insufficient(GPU, 2, 1)},
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu (need 2; best node has 1 free).",
        id="the-best-node-counts",
    ),
    pytest.param(
        {"a": insufficient(GPU, 1, -3)},
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu (need 1; best node has 0 free).",
        id="less-than-nothing-is-nothing",
    ),
    pytest.param(
        {"a": insufficient("cpu", 4001, 1500)},
        "0/1 nodes are available: 1 Insufficient cpu (need 4001m; best node has 1500m free).",
        id="cpu-in-milli",
    ),
    pytest.param(
        {"a": insufficient("memory", 3 * 2**30, 2**20)},
        "0/1 nodes are available: 1 Insufficient memory (need 3Gi; best node has 1Mi free).",
        id="memory-in-binary-units",
    ),
    pytest.param(
        {"a": insufficient(MIG_2G, 1, 0) + insufficient(MIG_1G, 1, 0)},
        "0/1 nodes are available: "
        "1 Insufficient nvidia.com/mig-1g.10gb (need 1; best node has 0 free), "
        "1 Insufficient nvidia.com/mig-2g.20gb (need 1; best node has 0 free).",
        id="a-node-is-named-once-for-each-of-its-reasons",
    ),
]


@pytest.mark.parametrize(("nodes", "text"), NUMBERS)
def test_numbers_follow_a_reason_without_a_comma(
    nodes: dict[str, tuple[Reason, ...]], text: str
) -> None:
    """Readers cut the list at commas."""
    assert sentence(Diagnosis(total=len(nodes), nodes=nodes)) == text


def test_the_list_is_sorted_as_text_and_not_as_numbers() -> None:
    texts = ["a"] * 10 + ["b"] * 2
    nodes = {
        f"n{at}": (Reason(code=REASON_CODES["TAINT"], text=text),) for at, text in enumerate(texts)
    }

    assert sentence(Diagnosis(total=12, nodes=nodes)) == "0/12 nodes are available: 10 a, 2 b."


def test_a_diagnosis_knows_its_codes_causes_and_what_was_lacking() -> None:
    mixed = Diagnosis(
        total=2,
        nodes={
            "a": insufficient(GPU, 1, 0),
            "b": (Reason(code=REASON_CODES["DEVICE_ASSIGNMENT_UNKNOWN"], text="x"),),
        },
    )

    assert mixed.codes() == {
        REASON_CODES["INSUFFICIENT"],
        REASON_CODES["DEVICE_ASSIGNMENT_UNKNOWN"],
    }
    assert mixed.causes() == {RequeueCause.FREED, RequeueCause.NODE, RequeueCause.DEVICES}
    assert mixed.lacking() == {GPU}


def test_pod_level_problem_replaces_node_reasons() -> None:
    general = Diagnosis(total=3, general=Reason(code=REASON_CODES["INDEX_HELD"], text="x"))

    assert general.codes() == {REASON_CODES["INDEX_HELD"]}
    assert general.causes() == {RequeueCause.OWNER}
    assert general.lacking() == frozenset()


@pytest.mark.parametrize("code", REASON_CODES.values(), ids=lambda code: code.name)
def test_every_code_has_a_meaning_and_requeue_causes(code: ReasonCode) -> None:
    """A rejection without a requeue event would wait for the five-minute flush."""
    assert code.meaning
    assert code.lifted_by
