"""Which pods have to go, and which pods may preempt: the tables of defaultpreemption."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Preemption, Rejection
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod, Unread
from scheduler.model.reasons.reason import sentence
from tests.builders import GPU, cluster, node, pod
from tests.unit.plugins.preemption.scene import (
    ALL,
    OFF,
    OWN,
    preemption,
    rejection,
    running,
    victims,
)

# --- reprieve --------------------------------------------------------------------------------

REPRIEVE = [
    pytest.param(
        [running("a", 1, gpus=1), running("b", 2, gpus=1)], 1, ["b"], id="later-start-goes"
    ),
    pytest.param(
        [running("a", 1, gpus=1, priority=1), running("b", 2, gpus=1, priority=3)],
        1,
        ["a"],
        id="lower-priority-goes",
    ),
    pytest.param(
        [running("a", 1, gpus=1, priority=1), pod("b", node="n1", gpus=1, priority=1)],
        1,
        ["b"],
        id="not-started-counts-as-now",
    ),
    pytest.param(
        [running("a", 1, gpus=1, priority=3), running("b", 2, gpus=1, priority=1)],
        2,
        ["a", "b"],
        id="both-most-important-first",
    ),
    pytest.param(
        [running("a", 1, gpus=1), running("cpu", 2, requests={"cpu": "1"})],
        1,
        ["a"],
        id="pod-that-frees-nothing-needed-stays",
    ),
    pytest.param(
        [running("a", 1, gpus=2), running("gone", 2, gpus=1, deleting=True)],
        1,
        ["gone"],
        id="a-terminating-pod-is-enough",
    ),
]


@pytest.mark.parametrize(("pods", "gpus", "expected"), REPRIEVE)
def test_as_few_and_as_unimportant_pods_as_possible_go(
    pods: list[Pod], gpus: int, expected: list[str]
) -> None:
    held = sum(one.requests.get(GPU, 0) for one in pods)
    state = cluster(node("n1", gpus=held), *pods)

    assert victims(state, pod("p", gpus=gpus, priority=9)) == expected


NO_VICTIM = [
    pytest.param({"priority": 9}, OWN, "1 No preemption victims found", id="equal-priority"),
    pytest.param({"priority": 10}, OWN, "1 No preemption victims found", id="higher-priority"),
    pytest.param({"scheduler": "other"}, OWN, "1 No preemption victims found", id="not-ours"),
]


@pytest.mark.parametrize(("fields", "pipeline", "text"), NO_VICTIM)
def test_pods_that_may_not_go_leave_the_pod_pending(
    fields: dict[str, Any], pipeline: Any, text: str
) -> None:
    state = cluster(node("n1", gpus=1), running("a", gpus=1, **fields))

    refused = rejection(state, pod("p", gpus=1, priority=9), pipeline)

    assert sentence(refused.diagnosis).endswith(
        f" preemption: 0/1 nodes are available: {text} for incoming pod."
    )
    assert refused.nominated_node == ""


def test_a_pod_of_another_scheduler_is_not_even_tried() -> None:
    foreign, ours = running("a", gpus=1, scheduler="other"), running("b", gpus=1)
    state = cluster(node("n1", gpus=2), foreign, ours)

    rejection(state, pod("p", gpus=2, priority=9))
    assert victims(state, pod("p", gpus=2, priority=9), ALL) == ["a", "b"]


def test_pods_of_other_schedulers_go_only_with_victims_all() -> None:
    state = cluster(node("n1", gpus=1), running("a", gpus=1, scheduler="other"))

    assert victims(state, pod("p", gpus=1, priority=9), ALL) == ["a"]


def test_a_pod_that_cannot_be_read_is_no_victim() -> None:
    unread = msgspec.structs.replace(running("a", gpus=1), unread=Unread(rest="no priority"))
    state = cluster(node("n1", gpus=1), unread)

    rejection(state, pod("p", gpus=1, priority=9))


def test_without_preemption_nothing_is_said_about_it() -> None:
    state = cluster(node("n1", gpus=1), running("a", gpus=1))

    assert "preemption" not in sentence(
        rejection(state, pod("p", gpus=1, priority=9), OFF).diagnosis
    )


def test_the_message_is_kube_schedulers() -> None:
    tainted = node("n2", gpus=1, taints=["a=b:NoSchedule"])
    state = cluster(
        node("n1", gpus=2),
        tainted,
        node("n3", gpus=2),
        running("a", gpus=1),
        running("b", gpus=1, priority=9),
        running("c", on="n3", gpus=1, priority=9),
    )

    said = sentence(rejection(state, pod("p", gpus=2, priority=9)).diagnosis)

    assert said == (
        "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Insufficient"
        " nvidia.com/gpu (need 2; best node has 1 free). preemption: 0/3 nodes are available:"
        " 1 Insufficient nvidia.com/gpu (need 2; best node has 1 free), 1 No preemption victims"
        " found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_a_found_node_is_named_in_the_message() -> None:
    state = cluster(node("n1", gpus=1), running("a", gpus=1))

    found = preemption(state, pod("p", gpus=1, priority=9))

    assert sentence(found.diagnosis).endswith(
        " preemption: found a potential placement for pod on node n1, preempting 1 victims"
    )
    assert found.nominated_node == "n1"


# --- eligibility -----------------------------------------------------------------------------


def test_a_pod_with_the_policy_never_preempts_no_pod() -> None:
    state = cluster(node("n1", gpus=1), running("a", gpus=1))
    mild = pod("p", gpus=1, priority=9, spec={"preemptionPolicy": "Never"})

    said = sentence(rejection(state, mild).diagnosis)

    assert said.endswith(" preemption: not eligible due to preemptionPolicy=Never.")


CONDITION = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize(
    ("condition", "waits"),
    [
        pytest.param(CONDITION, True, id="preempted"),
        pytest.param({**CONDITION, "reason": "EvictionByEvictionAPI"}, False, id="evicted"),
        pytest.param({**CONDITION, "status": "False"}, False, id="false"),
    ],
)
def test_a_preemptor_waits_while_its_victims_end(condition: dict[str, str], waits: bool) -> None:
    going = pod("a", node="n1", gpus=1, deleting=True, status={"conditions": [condition]})
    state = cluster(node("n1", gpus=2), going, running("b", gpus=1))
    waiting = pod("p", gpus=2, priority=9, nominated="n1")
    state.upsert_pod(waiting)

    decision = schedule_one(state, waiting, OWN)

    assert isinstance(decision, Preemption) is not waits
    if waits:
        assert isinstance(decision, Rejection)
        assert decision.nominated_node == "n1"
        assert sentence(decision.diagnosis).endswith(
            "not eligible due to a terminating pod on the nominated node."
        )


def test_a_preemptor_whose_node_is_cordoned_preempts_elsewhere() -> None:
    going = pod("a", node="n1", gpus=1, deleting=True, status={"conditions": [CONDITION]})
    state = cluster(
        node("n1", gpus=1, cordoned=True), node("n2", gpus=1), going, running("b", on="n2", gpus=1)
    )
    waiting = pod("p", gpus=1, priority=9, nominated="n1")
    state.upsert_pod(waiting)

    assert preemption(state, waiting).nominated_node == "n2"


def test_a_preemptor_has_five_rounds_in_ten_minutes() -> None:
    state = cluster(node("n1", gpus=1), running("a", gpus=1))
    waiting = pod("p", gpus=1, priority=9)
    for number in range(5):
        preemption(state, waiting)
        state.preemptions.begin(waiting.uid, frozenset(), float(number))

    state.nominate(waiting, "n1", Devices())
    exhausted = rejection(state, waiting)
    assert "five times within ten minutes" in sentence(exhausted.diagnosis)
    assert exhausted.nominated_node == "", "nothing ends for it there"

    assert state.preemptions.pass_time(601.0) == [waiting.uid]
    preemption(state, waiting)
