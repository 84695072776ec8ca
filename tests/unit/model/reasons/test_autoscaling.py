"""One table from the state of a pod to what autoscalers read; docs have the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scheduler.model.reasons.autoscaling import STATES, shown, text_class
from scheduler.model.reasons.condition_reason import ConditionReason
from tests.builders import pod_json
from tests.fake_autoscalers import wants_a_node

PAGE = Path(__file__).parents[4] / "docs" / "autoscalers.md"
R = ConditionReason


def test_docs_have_the_table_of_states() -> None:
    lines = [
        f"| {state.text} | {', '.join(f'`{one}`' for one in state.reasons)}"
        f" | {'that node' if state.names_node else 'empty'}"
        f" | {'yes' if state.adds_node else 'no'} |"
        for state in STATES
    ]
    head = "| state of the pod | reason | nominatedNodeName | adds a node |\n|---|---|---|---|\n"

    assert head + "\n".join(lines) + "\n" in PAGE.read_text(encoding="utf-8")


def test_each_reason_is_in_one_state() -> None:
    counts = Counter(reason for state in STATES for reason in state.reasons)

    assert set(counts) == set(R)
    assert [one for one, count in counts.items() if count > 1] == [R.UNSCHEDULABLE]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.text)
def test_autoscalers_read_the_table_as_it_is_meant(state: object) -> None:
    assert isinstance(state, type(STATES[0]))
    for reason in state.reasons:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason.value}
        node_name = "n1" if state.names_node else ""
        read = pod_json("w", nominated=node_name, status={"conditions": [condition]})

        assert wants_a_node(read) is state.adds_node


@pytest.mark.parametrize(
    ("reason", "nominated", "awaited", "expected"),
    [
        pytest.param(R.UNSCHEDULABLE, "", "", (R.UNSCHEDULABLE, ""), id="a-node-helps"),
        pytest.param(R.UNSCHEDULABLE, "n1", "", (R.WAITING_FOR_CAPACITY, "n1"), id="preemption"),
        pytest.param(R.UNSCHEDULABLE, "", "n2", (R.WAITING_FOR_CAPACITY, "n2"), id="migration"),
        pytest.param(R.UNSCHEDULABLE, "n1", "n2", (R.WAITING_FOR_CAPACITY, "n1"), id="both"),
        pytest.param(R.INVALID_MAP, "", "n2", (R.INVALID_MAP, ""), id="no-node-helps"),
    ],
)
def test_node_is_named_only_with_its_own_reason(
    reason: R, nominated: str, awaited: str, expected: tuple[R, str]
) -> None:
    assert shown(reason, nominated=nominated, awaited=awaited) == expected


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param("0/4 nodes: 3 full", "0/5 nodes: 12 full", True, id="numbers"),
        pytest.param("no index 2", "no index 2 3", False, id="one-number-more"),
        pytest.param("1 full", "1 tainted", False, id="words"),
    ],
)
def test_numbers_do_not_change_the_class_of_a_text(one: str, other: str, is_same: bool) -> None:
    assert (text_class(one) == text_class(other)) is is_same
