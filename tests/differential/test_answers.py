"""kube-scheduler's messages become histograms, and answers that differ are named."""

from __future__ import annotations

import pytest

from scheduler.framework.decision import Rejection
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from tests.builders import cluster, node, pod
from tests.differential.answers import (
    NOT_NAMED,
    Answer,
    OurAnswer,
    difference,
    named_nodes,
    parse,
    placed,
    reasons_of,
    rejected,
)
from tests.differential.our_side import OurSide

HEAD = "0/3 nodes are available: "


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            f"{HEAD}1 Too many pods, 2 Insufficient cpu.",
            {"Too many pods": 1, "Insufficient cpu": 2},
            id="reasons of nodes",
        ),
        pytest.param(
            f"{HEAD}3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No victims.",
            {"Insufficient cpu": 3},
            id="with what preemption came to",
        ),
        pytest.param(
            f"{HEAD}3 Insufficient cpu. deallocation of ResourceClaim completed, preemption: no.",
            {"Insufficient cpu": 3},
            id="with what was deallocated",
        ),
        pytest.param(
            f'{HEAD}persistentvolumeclaim "a" not found. preemption: no.',
            {'persistentvolumeclaim "a" not found': 0},
            id="reason about the whole pod",
        ),
        pytest.param(
            f"{HEAD}3 node(s) didn't satisfy plugin(s) [A, B].",
            {"node(s) didn't satisfy plugin(s) [A, B]": 3},
            id="comma inside of a reason",
        ),
        pytest.param(
            "no nodes available to schedule pods",
            {"no nodes available to schedule pods": 0},
            id="no nodes",
        ),
    ],
)
def test_message_becomes_a_histogram(message: str, expected: dict[str, int]) -> None:
    assert parse(message) == expected


def ours(newcomer: Pod) -> OurAnswer:
    """Our answer about a pod of 2 cpu, with a node of 1 and a node of 4."""
    side = OurSide()
    side.cluster = cluster(node("small", cpu="1"), node("large", cpu="4"), newcomer)
    return side.answer(newcomer.uid)


FITS_ONCE = pod("p", requests={"cpu": "2"})
FITS_NOWHERE = pod("p", requests={"cpu": "8"})


@pytest.mark.parametrize(
    ("newcomer", "theirs", "expected"),
    [
        pytest.param(FITS_ONCE, placed(["large"], ""), "", id="equal nodes"),
        pytest.param(FITS_ONCE, placed(["large", "small"], ""), "small: Insuff", id="we lack one"),
        pytest.param(FITS_ONCE, rejected(f"{HEAD}."), "only for us: ['large']", id="we add one"),
        pytest.param(
            FITS_NOWHERE, Answer(reasons={"Insufficient cpu": 2}), "", id="equal histograms"
        ),
        pytest.param(
            FITS_NOWHERE,
            Answer(reasons={"Insufficient cpu": 1, "Too many pods": 1}),
            "ours: {'Insufficient cpu': 2}",
            id="other reasons",
        ),
    ],
)
def test_difference_names_what_differs(newcomer: Pod, theirs: Answer, expected: str) -> None:
    found = difference(theirs, ours(newcomer))
    assert expected in found
    assert bool(found) is bool(expected)


def test_nominated_pod_is_compared_on_its_node_only() -> None:
    answer = ours(pod("p", requests={"cpu": "1"}))
    assert answer.feasible == {"small", "large"}
    assert answer.only_at("large").feasible == {"large"}


def naming(*terms: tuple[str, ...]) -> Pod:
    """A pod with a term for each tuple of node names; an empty tuple names none."""
    fields = [
        {
            "matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [one]} for one in names
            ]
        }
        if names
        else {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
        for names in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}
    return pod("p", requests={"cpu": "8"}, spec={"affinity": {"nodeAffinity": required}})


@pytest.mark.parametrize(
    ("newcomer", "expected"),
    [
        pytest.param(pod("p"), None, id="no affinity"),
        pytest.param(naming(("n1",), ("n2",)), {"n1", "n2"}, id="each term names one"),
        pytest.param(naming(("n1",), ()), None, id="a term names none"),
        pytest.param(naming(("n1", "n2")), set(), id="a term contradicts itself"),
    ],
)
def test_nodes_that_a_pod_names(newcomer: Pod, expected: set[str] | None) -> None:
    assert named_nodes(newcomer) == expected


def test_our_taint_text_counts_as_the_newer_one() -> None:
    """Difference D2: ours names the taint, as Kubernetes did up to 1.34."""
    state = cluster(node("a", taints=["k=v:NoSchedule"]), node("b", taints=["l=:NoExecute"]))
    side = OurSide()
    side.cluster = state
    newcomer = pod("p")
    state.upsert_pod(newcomer)
    assert side.answer(newcomer.uid).reasons == {"node(s) had untolerated taint(s)": 2}


def test_nodes_that_are_not_named_count_as_not_satisfied() -> None:
    """Difference D3: ours gives each of these nodes its own reasons."""
    newcomer = naming(("large",))
    answer = ours(newcomer)
    assert answer.reasons == {"Insufficient cpu": 1, NOT_NAMED: 1}
    assert isinstance(answer.decision, Rejection)
    assert reasons_of(answer.decision.diagnosis) == {
        "Insufficient cpu": 1,
        "node(s) didn't match Pod's node affinity/selector": 1,
    }


def test_numbers_follow_the_text_of_kube_scheduler() -> None:
    """Difference D4: our message has numbers, and says that no node is large enough."""
    decision = ours(FITS_NOWHERE).decision
    assert isinstance(decision, Rejection)
    message = sentence(decision.diagnosis)
    assert message.startswith(
        "0/2 nodes are available: 2 Insufficient cpu (need 8; best node has 4 free)."
    )
    assert "can never be placed here: " in message


def test_host_port_is_taken_until_its_last_pod_is_gone() -> None:
    """Difference D5: kube-scheduler forgets the port when the first of two such pods is gone."""
    ports = [{"containerPort": 80, "hostPort": 80}]
    side = OurSide()
    state = side.cluster = cluster(
        node("a"),
        pod("first", node="a", ports=ports),
        pod("second", node="a", ports=ports),
        pod("p", ports=ports),
    )
    state.delete_pod("team-first")
    reason = "node(s) didn't have free ports for the requested pod ports"
    assert side.answer("team-p").reasons == {reason: 1}


def test_claim_of_an_ephemeral_volume_has_the_name_of_the_sequence() -> None:
    text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{}-late"'
    theirs = parse(f"0/2 nodes are available: {text.format('p5-17')}. preemption: not eligible.")
    assert theirs == {text.format("p5"): 0}
