"""What DynamicResources says before, at and after a node."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.explain import explain
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement, Rejection
from scheduler.framework.plugin import BoundFilter, Refuse
from scheduler.framework.settings import Settings
from scheduler.model.dra.claim_plan import ClaimPlan, PlannedClaim
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause, sentence
from scheduler.plugins import default_pipeline
from scheduler.plugins.dynamic_resources.plugin import pre_filter
from scheduler.state.cache.cluster import Cluster
from tests.builders import ALLOW_ALL_MAPS, cluster, node, placed, pod
from tests.dra import (
    CLASS,
    Json,
    allocation_json,
    claiming,
    device_class,
    device_json,
    request_json,
    resource_claim,
    resource_slice,
    result_json,
)
from tests.unit.plugins.dynamic_resources.claim_world import mig_card, selecting

CLAIMING = pod(spec=claiming("gpu"))
ON_N1 = allocation_json(result_json())
SETTINGS = Settings()


DERIVED = {"name": "derived/numa", "expression": "1"}
PLAIN = {"name": "plain", "deviceClassName": CLASS}
WITH_DERIVED = {"name": "derived", "deviceClassName": CLASS, "derivedAttributes": [DERIVED]}


def refusal(newcomer: Pod, *objects: Any) -> str:
    answer = pre_filter(cluster(*objects), newcomer, SETTINGS)
    assert isinstance(answer, Refuse)
    return answer.reason.text


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        pytest.param([], 'resourceclaim "gpu" not found', id="missing"),
        pytest.param(
            [resource_claim(deleting=True)], 'resourceclaim "gpu" is being deleted', id="deleting"
        ),
        pytest.param(
            [resource_claim()],
            f"request gpu: device class {CLASS} does not exist",
            id="class",
        ),
        pytest.param(
            [resource_claim("gpu", {"name": "odd"})],
            "resource claim team/gpu request odd: unknown request type",
            id="request-type",
        ),
        pytest.param(
            [device_class(), resource_claim("gpu", request_json(derivedAttributes=[DERIVED]))],
            "resource claim team/gpu request gpu: cannot handle derivedAttributes",
            id="derived-attributes",
        ),
        pytest.param(
            [
                device_class(),
                resource_claim("gpu", {"name": "any", "firstAvailable": [PLAIN, WITH_DERIVED]}),
            ],
            "resource claim team/gpu request any/derived: cannot handle derivedAttributes",
            id="derived-attributes-of-a-subrequest",
        ),
        pytest.param(
            [resource_claim(allocation=ON_N1, users=[f"p{at}" for at in range(256)])],
            'resourceclaim "gpu" in use by 256 pods',
            id="too-many-pods",
        ),
        pytest.param(
            [resource_claim(), pod("theirs", scheduler="other", spec=claiming("gpu"))],
            'resourceclaim "gpu" is shared with pod theirs of another scheduler',
            id="other-scheduler",
        ),
    ],
)
def test_a_pod_whose_claim_no_node_can_have_is_refused(objects: list[Any], text: str) -> None:
    assert refusal(CLAIMING, *objects) == text


def test_claim_that_is_being_deallocated_is_not_used() -> None:
    """A preempted pod would take back the device that its preemptor waits for."""
    state = cluster(resource_claim(allocation=ON_N1, users=["p"]), device_class())
    state.dra.releases.begin(CLAIMING.uid, ("team/gpu",))

    answer = pre_filter(state, CLAIMING, SETTINGS)

    assert isinstance(answer, Refuse)
    assert answer.reason.text == "resource claim team/gpu is in the process of being deallocated"
    state.dra.end_release(CLAIMING.uid)
    assert not isinstance(pre_filter(state, CLAIMING, SETTINGS), Refuse)


def test_a_claim_that_was_created_for_another_pod_is_not_used() -> None:
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    newcomer = pod("p", spec=claiming(templates={"gpu": "t"}), status=status)

    text = refusal(newcomer, resource_claim(owner="team-other"))

    assert text == "ResourceClaim team/gpu was not created for Pod team/p (Pod is not owner)"


def test_a_claim_that_another_placement_allocates_is_waited_for() -> None:
    state = cluster(resource_slice("n1", "gpu-0"), device_class(), resource_claim(), node())
    first = placed(state, CLAIMING)
    assert first.claims is not None

    state.dra.assume("first", first.claims)

    decision = schedule_one(state, pod("q", spec=claiming("gpu")), ALLOW_ALL_MAPS)
    assert isinstance(decision, Rejection)
    assert "is in the process of being allocated" in sentence(decision.diagnosis)
    assert decision.diagnosis.causes() == {RequeueCause.RESOURCE_CLAIM}


def test_pods_that_dra_serves_nothing_get_no_filter() -> None:
    """Neither a claim nor a class for what they request."""
    state = cluster(node(), device_class(extendedResourceName="example.com/x"))

    assert pre_filter(state, pod(gpus=1), SETTINGS) is None
    assert pre_filter(state, pod(requests={"example.com/x": 1}), SETTINGS) is not None
    assert pre_filter(state, CLAIMING, SETTINGS) is not None


def test_reviewed_pod_does_not_wait_for_a_claim_of_a_template() -> None:
    review = pod("", uid="", spec=claiming(templates={"gpu": "t"}))

    assert pre_filter(cluster(node()), review, SETTINGS) is None


@pytest.mark.parametrize(
    ("claim", "only"),
    [
        pytest.param(resource_claim(allocation=ON_N1), {"n1"}, id="allocated"),
        pytest.param(resource_claim(), {"n1", "n2"}, id="nodes-with-devices"),
    ],
)
def test_only_nodes_that_can_pass_are_looked_at(claim: Any, only: set[str]) -> None:
    slices = [resource_slice(name, "gpu-0") for name in ("n1", "n2")]
    answer = pre_filter(cluster(*slices, device_class(), claim), CLAIMING, SETTINGS)

    assert isinstance(answer, BoundFilter)
    assert answer.only == frozenset(only)


def test_a_shared_claim_keeps_its_devices_and_adds_the_pod() -> None:
    claim = resource_claim(allocation=ON_N1, users=["first"])
    state = cluster(node("n1"), node("n2"), claim)

    found = placed(state, CLAIMING)

    assert found.node_name == "n1"
    assert found.claims == ClaimPlan("n1", (PlannedClaim("team/gpu", "uid-gpu"),))


def test_a_failed_device_keeps_the_pod_off_its_node() -> None:
    result = result_json(bindingConditions=["ready"], bindingFailureConditions=["broken"])
    status = {"driver": CLASS, "pool": "n1", "device": "gpu-0",
              "conditions": [{"type": "broken", "status": "True"}]}  # fmt: skip
    claim = resource_claim(allocation=allocation_json(result), users=["p", "q"], devices=[status])

    decision = schedule_one(cluster(node("n1"), claim), CLAIMING, ALLOW_ALL_MAPS)

    assert isinstance(decision, Rejection)
    assert "resourceclaim not available on the node (claim gpu; " in sentence(decision.diagnosis)


@pytest.mark.parametrize(
    ("devices", "text", "is_given_up"),
    [
        pytest.param(["gpu-0"], "resourceclaim not available on the node", True, id="fits"),
        pytest.param([], "cannot allocate all claims", False, id="fits-nowhere"),
    ],
)
def test_an_allocation_is_given_up_only_where_the_other_claims_fit(
    devices: list[str], text: str, is_given_up: bool
) -> None:
    """kube-scheduler allocates first (Filter), and gives up what is unavailable after that."""
    elsewhere = allocation_json(result_json(node="n9"), node="n9")
    state = cluster(
        node("n1"),
        device_class(),
        resource_slice("n1", *devices),
        resource_claim("gpu"),
        resource_claim("there", allocation=elsewhere),
    )
    newcomer = pod(spec=claiming("there", "gpu"))
    state.upsert_pod(newcomer)

    decision = schedule_one(state, newcomer, default_pipeline(SETTINGS), Budget(10_000))

    assert isinstance(decision, Rejection)
    assert text in sentence(decision.diagnosis)
    assert (decision.deallocates is not None) is is_given_up


def size(name: str, value: int) -> Json:
    return device_json(name, attributes={"size": {"int": value}})


def test_a_node_with_the_preferred_subrequest_comes_first() -> None:
    sized = f'device.attributes["{CLASS}"].size == '
    choice = [
        {"name": f"s{at}", "deviceClassName": CLASS,
         "selectors": [{"cel": {"expression": f"{sized}{at}"}}]}
        for at in (2, 1)
    ]  # fmt: skip
    state = cluster(
        node("a"),
        node("b"),
        resource_slice("a", size("small", 1)),
        resource_slice("b", size("big", 2)),
        device_class(),
        resource_claim("gpu", {"name": "gpu", "firstAvailable": choice}),
    )

    assert placed(state, CLAIMING).node_name == "b"


def two_nodes_one_used() -> Cluster:
    used = resource_claim("used", allocation=allocation_json(result_json("gpu-0", "b"), node="b"))
    return cluster(
        node("a"),
        node("b"),
        *(resource_slice(name, "gpu-0", "gpu-1") for name in "ab"),
        device_class(),
        resource_claim(),
        used,
    )


@pytest.mark.parametrize(
    ("placement", "node_name"),
    [pytest.param("pack", "b", id="pack"), pytest.param("spread", "a", id="spread")],
)
def test_the_fullest_node_comes_first_unless_pods_spread(placement: str, node_name: str) -> None:
    pipeline = default_pipeline(Settings(maps_allow="all", placement=placement))

    assert placed(two_nodes_one_used(), CLAIMING, pipeline).node_name == node_name


def test_a_mig_partition_goes_to_the_node_that_loses_least() -> None:
    state = cluster(
        node("n0"),
        node("n1"),
        *mig_card(node_name="n0"),
        *mig_card(node_name="n1"),
        device_class(),
        resource_claim("gpu", request_json(**selecting("1g.10gb"))),
        resource_claim("used", allocation=allocation_json(result_json("0-2g.20gb-4"))),
    )

    found = placed(state, CLAIMING)

    assert found.node_name == "n1"
    assert "0-1g.10gb-6" in str(found.claims)


def test_the_steps_of_all_nodes_together_are_limited() -> None:
    many = [resource_slice(name, *(f"gpu-{at}" for at in range(20))) for name in ("n1", "n2")]
    requests = (request_json("a", count=10), request_json("b", count=11))
    state = cluster(node("n1"), node("n2"), *many, device_class(), resource_claim("gpu", *requests))
    work = Budget(10)
    pipeline = default_pipeline(Settings(maps_allow="all", decision_steps_max=1_000))

    decision = schedule_one(state, CLAIMING, pipeline, work)

    assert isinstance(decision, Rejection)
    assert {one.name for one in decision.diagnosis.codes()} == {"DEVICE_SEARCH_LIMIT"}


@pytest.mark.parametrize(
    ("most", "code"), [(150, "DEVICE_SEARCH_LIMIT"), (2_000, "DEVICES_NOT_AVAILABLE")]
)
def test_devices_that_are_compared_with_a_request_in_vain_are_steps(most: int, code: str) -> None:
    """A node without enough of them is not searched, and its devices are looked at nevertheless."""
    many = [resource_slice(name, *(f"gpu-{at}" for at in range(400))) for name in ("n1", "n2")]
    nothing = device_class(CLASS, "device.driver == 'another'")
    state = cluster(node("n1"), node("n2"), *many, nothing, resource_claim())
    pipeline = default_pipeline(Settings(maps_allow="all", decision_steps_max=most))

    decision = schedule_one(state, CLAIMING, pipeline, Budget(1_000))

    assert isinstance(decision, Rejection)
    assert {one.name for one in decision.diagnosis.codes()} == {code}


def test_a_node_that_takes_more_than_half_of_the_steps_is_used() -> None:
    """Reserve searches it once, as Filter did."""
    large = resource_slice("n1", *(f"gpu-{at}" for at in range(100)))
    state = cluster(node("n1"), large, device_class(), resource_claim())
    pipeline = default_pipeline(Settings(maps_allow="all", decision_steps_max=150))

    assert isinstance(schedule_one(state, CLAIMING, pipeline, Budget(1_000)), Placement)


def test_a_pod_is_placed_whose_claim_is_reserved_for_it_already() -> None:
    claim = resource_claim(allocation=ON_N1, users=["p"])

    decision = schedule_one(cluster(node("n1"), claim), CLAIMING, ALLOW_ALL_MAPS)

    assert isinstance(decision, Placement)


def test_the_explanation_names_each_claim_with_its_devices() -> None:
    state = cluster(node(), resource_slice("n1", "gpu-0"), device_class(), resource_claim())

    found = explain(schedule_one(state, CLAIMING, ALLOW_ALL_MAPS))

    assert found.claims == f"gpu ({CLASS}/n1/gpu-0)"


def test_rejection_of_many_nodes_is_one_sentence_without_claim_names() -> None:
    state = cluster(
        node("n1"),
        node("n2"),
        resource_slice("n1", "gpu-0"),
        resource_slice("n2", "gpu-0"),
        device_class(CLASS, f'device.attributes["{CLASS}"].size == 1'),
        resource_claim("first"),
        resource_claim("second"),
    )

    texts = []
    for name in ("first", "second"):
        decision = schedule_one(state, pod(name, spec=claiming(name)), ALLOW_ALL_MAPS)
        assert isinstance(decision, Rejection)
        texts.append(sentence(decision.diagnosis))

    assert texts[0] == texts[1]
    assert texts[0].startswith(f"0/2 nodes are available: 2 class {CLASS}: selector #0 on device")
