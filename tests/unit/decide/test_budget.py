"""A complex pod slows its own decisions, within a limit, and no other pod's.

Counted in steps, as the decisions count them; nothing here is timed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from scheduler.decide.admission.fallback_candidates import Candidate
from scheduler.decide.admission.tier_selection import TierGranted, choose_tier
from scheduler.decide.explain import explain
from scheduler.decide.requeue_check import condition_at_node
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import TERM_STEPS, Budget
from scheduler.framework.decision import Placement, Rejection
from scheduler.model import well_known
from scheduler.model.limits import DECISION_STEPS_MAX
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import REASON_CODES
from scheduler.state.cache.cluster import Cluster
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, restore, take
from tests.best_node import best_node
from tests.builders import ALLOW_ALL_MAPS, cluster, codes, dynamic, node, pod
from tests.unit.decide.admission.admission_world import World, wants_2g

NODES = 104
OFTEN = 40


def terms(count: int, prefix: str = "y") -> dict[str, Any]:
    """A spec with so many node affinity terms, each of a label of its own."""
    return affinity({"matchExpressions": [wanted(f"{prefix}-{n}")]} for n in range(count))


def node_terms(count: int) -> dict[str, Any]:
    """The same with terms that name nodes: no index helps, every node has to be compared."""
    return affinity({"matchFields": [wanted("metadata.name")]} for _ in range(count))


def pod_terms(count: int) -> dict[str, Any]:
    """A spec with so many required anti-affinity terms."""
    every = [
        {"labelSelector": {"matchLabels": {"app": f"a{n}"}}, "topologyKey": "zone"}
        for n in range(count)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": every}
    return {"spec": {"affinity": {"podAntiAffinity": required}}}


def wanted(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": ["a"]}


def affinity(each: Iterable[dict[str, Any]]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*each]}}
    return {"spec": {"affinity": {"nodeAffinity": required}}}


def complex_pod(number: int, count: int = 4000, **fields: Any) -> Pod:
    """A pod that selects thousands of labels."""
    one = {"gpus": 1, "namespace": "evil", **terms(count, f"y{number}"), **fields}
    return pod(f"un{number}", **one)


def scanned_pod(count: int = 4000, **fields: Any) -> Pod:
    """A pod that has to be compared with every node, and with many terms."""
    return pod("un", gpus=1, **node_terms(count), **fields)


def machines(count: int = NODES) -> Cluster:
    return cluster(*(node(f"n{n}", gpus=4, labels={"zone": "a"}) for n in range(count)))


def spent(state: Cluster, one: Pod) -> int:
    """The steps of one decision."""
    work = Budget(DECISION_STEPS_MAX)
    schedule_one(state, one, ALLOW_ALL_MAPS, work)
    return work.spent


# --- others do not pay ----------------------------------------------------------------


def test_forty_complex_pods_add_no_steps_to_another_decision() -> None:
    state, alone = machines(), machines()
    bob = pod("bob", namespace="tenant-b", gpus=1, selector={"zone": "a"})
    before = state.index.rebuilt
    attackers = [complex_pod(number) for number in range(OFTEN)]
    for one in attackers:
        state.upsert_pod(one)
        assert spent(state, one) <= DECISION_STEPS_MAX

    for view in (state, alone):
        for number in range(8):
            view.upsert_pod(msgspec.structs.replace(bob, uid=f"b{number}"))
    assert state.index.rebuilt - before == alone.index.rebuilt, "the index is never rebuilt"
    assert spent(state, bob) == spent(alone, bob) < 10


def test_complex_pod_leaves_nothing_in_the_caches() -> None:
    state = machines()
    for number in range(OFTEN):
        schedule_one(state, complex_pod(number), ALLOW_ALL_MAPS)

    assert len(state.filter_results) == 0


def test_a_change_of_a_node_is_compared_with_no_complex_pod() -> None:
    """It is requeued, and tried after its backoff."""
    state = machines(1)
    assert (
        condition_at_node(state, ALLOW_ALL_MAPS, pod("p", selector={"zone": "b"}), "n0") is not None
    )
    assert condition_at_node(state, ALLOW_ALL_MAPS, scanned_pod(), "n0") is None


def test_an_admission_looks_for_no_room_for_complex_pods() -> None:
    """Sixty of them once took every admission's whole second."""
    state = cluster(*(node(f"n{n}", mig={"2g.20gb": 1}) for n in range(NODES)))
    reservations = Reservations()
    for number in range(60):
        one = complex_pod(number, 3000, gpus=0, mig={"2g.20gb": 1})
        reservations.create(f"r-{number}", one, "n0", 0.0, is_annotated=True)
    work = Budget(DECISION_STEPS_MAX)

    newcomer = wants_2g()
    options = [Candidate(pod=newcomer)]
    found = choose_tier(state, newcomer, options, reservations.holders(0), [], ALLOW_ALL_MAPS, work)

    assert isinstance(found, TierGranted)
    assert work.spent < 1000


# --- past the bound --------------------------------------------------------------------


def test_pod_over_the_step_budget_waits_with_count_and_advice() -> None:
    rejection = schedule_one(machines(), scanned_pod(), ALLOW_ALL_MAPS)

    assert isinstance(rejection, Rejection)
    assert rejection.diagnosis.codes() == {REASON_CODES["TOO_COMPLEX"]}
    each = 1 + 4000 * 2 + 1
    assert sentence(rejection.diagnosis) == (
        f"0/104 nodes are available: TooComplex: to compare the pod's selectors, terms, tolerations"
        f" and requests with 104 nodes takes {104 * each} steps and one decision may take"
        " 200000; name fewer labels and values or ask for fewer MIG instances in one pod."
    )


def test_pod_with_thousands_of_terms_is_rejected_before_reading() -> None:
    state = machines()
    state.upsert_pod(pod("placed", node="n0", labels={"app": "a0"}))

    many = pod("many", **pod_terms(DECISION_STEPS_MAX // TERM_STEPS + 1))
    assert codes(state, many) == {REASON_CODES["TOO_COMPLEX"]}
    assert list(state.nodes.topology._every_counter()) == []
    assert codes(state, pod("few", gpus=9, **pod_terms(100))) == {REASON_CODES["INSUFFICIENT"]}


def test_node_found_within_the_budget_is_taken_without_a_diagnosis() -> None:
    few = msgspec.structs.replace(ALLOW_ALL_MAPS, decision_steps_max=20)
    state = cluster(*(node(f"n{n}", gpus=1) for n in range(50)))

    assert isinstance(schedule_one(state, pod(gpus=1), few), Placement)
    assert codes(state, pod(gpus=2), few) == {REASON_CODES["TOO_COMPLEX"]}


def test_a_mapped_pod_is_compared_with_one_node_and_counts_too() -> None:
    few = msgspec.structs.replace(ALLOW_ALL_MAPS, decision_steps_max=10)
    state = machines()

    assert codes(state, pod("w-0", map="0=n1:0", **terms(5)), few) == {REASON_CODES["TOO_COMPLEX"]}
    assert isinstance(schedule_one(state, pod("w-0", map="0=n1:0"), few), Placement)


def test_truncated_search_finds_no_node_rather_than_a_worse_one() -> None:
    """A pod with two kinds of devices is compared with every node."""
    state = cluster(*(node(f"n{n}", gpus=4, mig={"1g.10gb": 1}) for n in range(10)))
    one = pod(gpus=1, mig={"1g.10gb": 1})
    steps = 10 * (one.label_steps + one.node_steps)

    for limit in range(steps):
        work = Budget(limit)
        assert best_node(state, one, work) is None
        assert work.is_over
    assert best_node(state, one, Budget(steps)) is not None


@pytest.mark.parametrize("strict", [False, True], ids=["waits", "ends-in-fail"])
def test_admission_over_the_step_budget_leaves_the_request_unchanged(strict: bool) -> None:
    """Also where the ladder would end in a refusal: nothing is known to be full."""
    world = World(*(node(f"n{n}", mig={"1g.10gb": 1}) for n in range(NODES)))
    ladder = {well_known.MIG_FALLBACK: "2g.20gb->1g.10gb" + ("->fail" if strict else "")}
    asked = wants_2g(annotations=ladder, **node_terms(4000))

    answer = world.ask(asked).answer

    assert (answer.denied, answer.rewrites, answer.reservation) == (None, (), None)
    assert "TooComplex" in answer.warnings[0]


# --- ordinary pods ----------------------------------------------------------------------

ORDINARY = [
    pytest.param({"gpus": 8}, id="nothing-but-gpus"),
    pytest.param({"gpus": 8, "selector": {"zone": "a"}}, id="a-selector"),
    pytest.param({"gpus": 8, "spec": terms(3)["spec"]}, id="an-affinity"),
    pytest.param({"gpus": 8, "spec": node_terms(3)["spec"]}, id="nodes-by-name"),
    pytest.param({"gpus": 8, "mig": {"1g.10gb": 1}}, id="two-kinds-of-devices"),
]


@pytest.mark.parametrize("fields", ORDINARY)
def test_refusal_is_explained_for_ten_thousand_nodes(fields: Any) -> None:
    state = machines()
    work = Budget(DECISION_STEPS_MAX)

    rejection = schedule_one(state, pod("p", **fields), ALLOW_ALL_MAPS, work)

    assert isinstance(rejection, Rejection)
    assert len(rejection.diagnosis.nodes) == NODES
    assert work.spent / NODES * 10_000 < DECISION_STEPS_MAX


# --- GPUs with dynamic MIG ----------------------------------------------------------------

#: What was asked for when a decision took seconds, and what a decision may take now.
SLICES = [
    pytest.param({"1g.10gb": 7}, True, id="seven"),
    pytest.param({"1g.10gb": 30}, True, id="thirty"),
    pytest.param({"1g.10gb": 20, "2g.20gb": 10, "3g.40gb": 5}, False, id="three-profiles"),
    pytest.param(
        {"1g.10gb": 1, "1g.20gb": 9, "2g.20gb": 9, "3g.40gb": 6, "4g.40gb": 5},
        False,
        id="five-profiles",
    ),
    pytest.param({"1g.10gb": 57}, False, id="one-more-than-a-node-has"),
    pytest.param({"1g.10gb": 2000}, False, id="two-thousand"),
    pytest.param({"1g.10gb": 2**63 - 1}, False, id="beyond-all-bounds"),
]


@pytest.mark.parametrize(("mig", "fits"), SLICES)
def test_many_slices_in_one_pod_are_decided_within_the_steps(
    mig: dict[str, int], fits: bool
) -> None:
    state = cluster(*(dynamic(f"d{n}", gpus=8) for n in range(20)))
    work = Budget(DECISION_STEPS_MAX)

    decision = schedule_one(state, pod("p", mig=mig), ALLOW_ALL_MAPS, work)

    assert isinstance(decision, Placement) is fits
    assert work.spent < DECISION_STEPS_MAX


def test_request_beyond_every_node_is_not_searched() -> None:
    state = cluster(*(dynamic(f"d{n}", gpus=8) for n in range(20)))

    assert spent(state, pod("p", mig={"1g.10gb": 2000})) < 300


# --- the same again ------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 10, 100, 1000, 10_000, DECISION_STEPS_MAX])
def test_decision_over_the_budget_is_reproducible(most: int) -> None:
    """From a snapshot, and after other decisions were made and are remembered."""
    profile = msgspec.structs.replace(ALLOW_ALL_MAPS, decision_steps_max=most)
    state, queue = machines(), SchedulingQueue()
    pods = [scanned_pod(), complex_pod(1), scanned_pod(3), pod("p", gpus=8), pod("q", gpus=1)]
    for one in (*pods, *pods):
        state.upsert_pod(one)
        queue.add(one, 1.0)
        schedule_one(state, one, ALLOW_ALL_MAPS)
    written = msgspec.json.encode(take(state, queue, Reservations(), 1, 2.0))
    again = restore(msgspec.json.decode(written, type=ClusterSnapshot))

    for one in pods:
        first, second = (
            msgspec.json.encode(explain(schedule_one(view, one, profile)))
            for view in (state, again)
        )
        assert first == second
