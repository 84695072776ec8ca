"""Tiers at admission under conditions: nodes, floors, quotas, groups, and tiers without nodes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.admission.admit import Admission, Rules
from scheduler.model import well_known
from scheduler.model.admission import ResourceRewrite
from scheduler.model.mig.fallback_ladder import parse_ladder
from scheduler.model.quota import Quota
from tests.builders import GPU, MIG_1G, MIG_2G, container, namespace, node, pod
from tests.unit.decide.admission.admission_world import RULES, World, wants_2g

A100 = {"gpu-type": "a100"}
H100 = {"gpu-type": "h100"}
#: Three tiers, so that skipping one shows.
ROOMS = node("m", mig={"1g.10gb": 9, "1g.20gb": 1})


def laddered(text: str, **fields: Any) -> Any:
    given = {well_known.MIG_FALLBACK: text, **fields.pop("annotations", {})}
    return wants_2g(annotations=given, **fields)


def told(admission: Admission) -> dict[str, str]:
    """Tier -> the word for why the pod did not get it."""
    return {" ".join(one.tiers): one.result for one in admission.tried}


def quota(hard: dict[str, int], used: dict[str, int] | None = None) -> Quota:
    return Quota(namespace="team", name="gpus", hard=hard, used=used or {})


# --- on some nodes only ----------------------------------------------------------------------


@pytest.mark.contract("S0-26")
@pytest.mark.parametrize(
    ("ladder", "fields", "granted"),
    [
        pytest.param("2g.20gb->1g.10gb[gpu-type=a100]", {}, "a100", id="on-such-a-node"),
        pytest.param("2g.20gb->1g.10gb[gpu-type=l40]", {}, None, id="on-no-such-node"),
        pytest.param(
            "2g.20gb->1g.10gb[gpu-type=l40]->1g.10gb[gpu-type=h100]", {}, "h100", id="next-kind"
        ),
        pytest.param(
            "2g.20gb->1g.10gb[gpu-type=a100]", {"selector": A100}, "a100", id="the-pod-agrees"
        ),
        pytest.param(
            "2g.20gb->1g.10gb[gpu-type=a100]", {"selector": H100}, None, id="the-pod-disagrees"
        ),
    ],
)
def test_a_tier_with_labels_counts_on_nodes_with_these_labels(
    ladder: str, fields: dict[str, Any], granted: str | None
) -> None:
    nodes = [
        node("a", mig={"1g.10gb": 1}, labels=A100),
        node("h", mig={"1g.10gb": 1}, labels=H100),
    ]
    admission = World(*nodes).ask(laddered(ladder, **fields))

    if granted is None:
        assert (admission.granted, admission.result) == (None, "pending")
        return
    assert admission.granted is not None
    assert admission.granted.placement.node_name == granted[0]
    assert admission.answer.where.labels == (("gpu-type", granted),)
    assert admission.granted.pod.node_selector == {"gpu-type": granted}


def test_a_pod_that_keeps_its_tier_goes_wherever_it_may() -> None:
    admission = World(node("n", mig={"2g.20gb": 1})).ask(
        laddered("2g.20gb->1g.10gb[gpu-type=a100]")
    )

    assert admission.result == "kept"
    assert not admission.answer.where


def test_reservation_with_labels_holds_its_slice_on_such_nodes() -> None:
    """A new pod of another owner must not reserve the same slice."""
    world = World(node("a", mig={"1g.10gb": 1}, labels=A100), node("h", mig={"1g.10gb": 1}))
    ladder = "2g.20gb->1g.10gb[gpu-type=a100]"

    assert world.admit(laddered(ladder)) == "1g.10gb"
    assert world.ask(laddered(ladder)).result == "pending"
    assert world.admit(laddered("2g.20gb->1g.10gb")) == "1g.10gb"


# --- what is not tried -----------------------------------------------------------------------


def test_tiers_without_nodes_are_skipped_and_reported() -> None:
    admission = World(node("m", mig={"1g.10gb": 1})).ask(wants_2g())

    assert told(admission) == {"2g.20gb": "full", "1g.20gb": "absent"}
    assert admission.tried[1].message == "not tried: no node offers it"


def test_tier_of_a_deleted_last_node_is_skipped() -> None:
    world = World(node("m", mig={"1g.20gb": 1}))
    assert world.ask(wants_2g()).result == "degraded"

    world.cluster.delete_node("m")

    assert told(world.ask(wants_2g())) == {
        "2g.20gb": "full",
        "1g.20gb": "absent",
        "1g.10gb": "absent",
    }


@pytest.mark.parametrize(
    ("floor", "granted"),
    [
        pytest.param("16Gi", "1g.20gb", id="between"),
        pytest.param("20Gi", "1g.20gb", id="exactly"),
        pytest.param("10Gi", "1g.10gb", id="low"),
        pytest.param("1Gi", "1g.10gb", id="lower"),
    ],
)
def test_a_tier_below_the_floor_is_never_taken(floor: str, granted: str) -> None:
    world = World(ROOMS)
    asked = wants_2g(annotations={well_known.MEMORY_FLOOR: floor})
    tiers = [world.admit(asked) for _ in range(2)]

    assert tiers == ["1g.20gb", "1g.10gb" if granted == "1g.10gb" else "pending"]


def test_tiers_below_the_floor_are_reported() -> None:
    asked = wants_2g(annotations={well_known.MEMORY_FLOOR: "16Gi"})
    admission = World(node("m", mig={"1g.10gb": 9})).ask(asked)

    assert told(admission)["1g.10gb"] == "floor"
    assert admission.tried[-1].message == (
        "not tried: it is below the pod's gpu-scheduler.io/memory-floor"
    )


@pytest.mark.parametrize(
    ("labels", "granted"),
    [
        pytest.param({well_known.GPU_MEMORY: "81559"}, True, id="an-80GB-card"),
        pytest.param({well_known.GPU_MEMORY: "46068"}, False, id="a-48GB-card"),
        pytest.param({}, False, id="unknown"),
    ],
)
def test_a_whole_gpu_meets_the_floor_only_if_its_node_says_so(
    labels: dict[str, str], granted: bool
) -> None:
    asked = laddered(
        "7g.80gb->gpu", annotations={well_known.MEMORY_FLOOR: "80Gi"}, mig={"7g.80gb": 1}
    )
    admission = World(node("n", gpus=1, labels=labels)).ask(asked)

    assert (admission.granted is not None) is granted
    assert bool(admission.answer.where) is granted


@pytest.mark.parametrize(
    ("value", "line"),
    [
        pytest.param("lots", "gpu-scheduler.io/memory-floor: 'lots' is not an amount", id="word"),
        pytest.param("16", "gpu-scheduler.io/memory-floor: 16 is 16 bytes", id="no-unit"),
        pytest.param(
            "32Gi",
            "gpu-scheduler.io/memory-floor: 32Gi is more than the 2g.20gb that the pod requests;"
            " request more, or lower the floor",
            id="above-the-request-itself",
        ),
    ],
)
def test_invalid_floor_is_denied(value: str, line: str) -> None:
    admission = World(ROOMS).ask(wants_2g(annotations={well_known.MEMORY_FLOOR: value}))

    assert admission.result == "denied"
    assert str(admission.answer.denied).startswith(line)


# --- quotas ----------------------------------------------------------------------------------


def test_lower_tier_with_a_full_quota_is_skipped() -> None:
    world = World(node("m", mig={"1g.20gb": 1, "1g.10gb": 1}))
    world.cluster.quotas.upsert(quota({"nvidia.com/mig-1g.20gb": 3}, {"nvidia.com/mig-1g.20gb": 3}))

    admission = world.ask(wants_2g())

    assert admission.granted is not None
    assert admission.granted.pod.gpu_requests == {MIG_1G: 1}
    assert told(admission) == {"2g.20gb": "full", "1g.20gb": "quota_exceeded"}
    assert admission.tried[1].message == (
        "not tried: ResourceQuota gpus allows 3 x 1g.20gb and 3 are used"
    )


def test_pod_keeps_its_tier_where_every_lower_quota_is_full() -> None:
    world = World(node("m", mig={"1g.10gb": 1}))
    world.cluster.quotas.upsert(quota({MIG_1G: 0}))

    admission = world.ask(wants_2g())

    assert (admission.result, admission.answer.rewrites) == ("pending", ())


def test_full_quota_of_the_requested_tier_changes_nothing() -> None:
    """The API server refuses the pod, and that stands, whatever else is free."""
    world = World(node("m", mig={"2g.20gb": 5, "1g.10gb": 5}))
    world.cluster.quotas.upsert(quota({MIG_2G: 2}, {MIG_2G: 2}))

    admission = world.ask(wants_2g())

    assert (admission.result, admission.granted) == ("quota_exceeded", None)
    assert (admission.answer.rewrites, admission.answer.denied) == ((), None)


def test_reservations_count_in_a_quota_until_their_pods_appear() -> None:
    """The API server's own count comes with the pods."""
    world = World(node("m", mig={"1g.10gb": 9}))
    world.cluster.quotas.upsert(quota({MIG_1G: 2}))

    assert [world.admit(wants_2g()) for _ in range(3)] == ["1g.10gb", "1g.10gb", "pending"]

    world.appear("1g.10gb", 1)
    world.cluster.quotas.upsert(quota({MIG_1G: 3}, {MIG_1G: 1}))
    assert [world.admit(wants_2g()) for _ in range(2)] == ["1g.10gb", "pending"]


def test_quota_is_charged_with_the_granted_tier() -> None:
    """The granted tier counts: three request 2g under a quota of one 2g, and two are degraded."""
    world = World(node("m", mig={"2g.20gb": 1, "1g.10gb": 9}))
    world.cluster.quotas.upsert(quota({MIG_2G: 2}, {}))

    assert [world.admit(wants_2g()) for _ in range(3)] == ["2g.20gb", "1g.10gb", "1g.10gb"]


# --- groups and pods without fallback -----------------------------------------------------------


UP = "1g.10gb->2g.20gb->3g.40gb"


@pytest.mark.contract("S3-16")
def test_upwards_the_next_larger_tier_is_tried_first() -> None:
    """Seed 003's direction: no capacity of the requested size is free."""
    world = World(node("m", mig={"2g.20gb": 1, "3g.40gb": 1}))
    asked = pod("x", uid="", mig={"1g.10gb": 1}, annotations={well_known.MIG_FALLBACK: UP})

    assert [world.admit(asked) for _ in range(3)] == ["2g.20gb", "3g.40gb", "pending"]


@pytest.mark.contract("S3-B8")
def test_memory_is_kept_before_compute() -> None:
    """Seed 003's order shrank memory; the default ladder gives up compute first."""
    world = World(node("m", mig={"1g.20gb": 1, "1g.10gb": 1}))

    assert [world.admit(wants_2g()) for _ in range(2)] == ["1g.20gb", "1g.10gb"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, id="coscheduling"),
        pytest.param({"annotations": {"scheduling.k8s.io/group-name": "g"}}, id="volcano"),
        pytest.param({"spec": {"schedulingGroup": {"podGroupName": "g"}}}, id="in-the-spec"),
        pytest.param(
            {"spec": {"schedulingGroup": {"podGroupName": "g"}}, "scheduler": "other"},
            id="of-the-api",
        ),
    ],
)
def test_a_member_of_a_group_steps_down_only_with_a_ladder_of_its_own(
    fields: dict[str, Any],
) -> None:
    rules = Rules(ladders=RULES.ladders, scope="all")
    scope: Any = "any" if "scheduler" in fields else "ours"
    rooms = (node("m", mig={"1g.10gb": 9}), namespace("team", ladder="2g.20gb->1g.10gb"))
    ladder = {well_known.MIG_FALLBACK: "2g.20gb->1g.10gb", **fields.get("annotations", {})}

    assert World(*rooms, rules=rules).admit(wants_2g(**fields), scope) == "pending"
    with_ladder = wants_2g(**{**fields, "annotations": ladder})
    assert World(*rooms, rules=rules).admit(with_ladder, scope) == "1g.10gb"


def test_a_group_has_one_tier() -> None:
    """The second member finds its tier free, and still takes the first one's; and the third."""
    group = {"scheduling.x-k8s.io/pod-group": "g"}
    world = World(node("m", mig={"1g.10gb": 9}))
    assert world.admit(laddered("2g.20gb->1g.10gb", labels=group)) == "1g.10gb"
    world.cluster.upsert_node(node("m", mig={"1g.10gb": 9, "2g.20gb": 9}))

    assert world.admit(laddered("2g.20gb->1g.10gb", labels=group)) == "1g.10gb"

    record = {
        well_known.RESERVATION: "r-1",
        well_known.FALLBACK: "2g.20gb->1g.10gb",
        well_known.ORIGINAL: f'{{"app":{{"limits":{{"{MIG_2G}":"1"}}}}}}',
    }
    seen = pod("web-1", mig={"1g.10gb": 1}, labels=group, annotations=record)
    world.cluster.upsert_pod(seen)
    world.reservations.upsert_pod(seen)
    admission = world.ask(laddered("2g.20gb->1g.10gb", labels=group))
    assert told(admission) == {"2g.20gb": "group"}
    assert admission.tried[0].message == "not tried: the pod's group has 1g.10gb"
    other = {"scheduling.x-k8s.io/pod-group": "another"}
    assert world.admit(laddered("2g.20gb->1g.10gb", labels=other)) == "2g.20gb"


def test_group_keeps_the_tier_of_its_first_member() -> None:
    group = {"scheduling.x-k8s.io/pod-group": "g"}
    world = World(node("m", mig={"2g.20gb": 1, "1g.10gb": 9}))

    tiers = [world.admit(laddered("2g.20gb->1g.10gb", labels=group)) for _ in range(2)]

    assert tiers == ["2g.20gb", "pending"]


@pytest.mark.contract("S3-B19")
def test_containers_with_different_tiers_step_down_independently() -> None:
    ladder = parse_ladder("3g.40gb->2g.20gb->1g.20gb->1g.10gb")
    world = World(node("m", mig={"3g.40gb": 1, "1g.20gb": 1}), rules=Rules(ladders=(ladder,)))
    asked = pod(
        "x",
        uid="",
        init=[container("prep", requests={MIG_2G: 1})],
        containers=[container("big", requests={"nvidia.com/mig-3g.40gb": 1})],
        annotations={well_known.MEMORY_FLOOR: "20Gi"},
    )

    admission = world.ask(asked)

    assert admission.answer.rewrites == (
        ResourceRewrite(
            container="prep", source=MIG_2G, target="nvidia.com/mig-1g.20gb", init=True
        ),
    )
    assert GPU not in admission.granted.pod.requests if admission.granted else False


@pytest.mark.parametrize(
    ("owner", "later"),
    [
        pytest.param("", "it keeps 1g.10gb: the pod has no controller", id="bare-pod"),
        pytest.param(
            "ReplicaSet/web", "a restore gives it 2g.20gb when that is free", id="controller"
        ),
    ],
)
def test_step_down_is_a_warning_at_admission(owner: str, later: str) -> None:
    [text] = World(node("n", mig={"1g.10gb": 1})).ask(wants_2g(owner=owner)).answer.warnings

    assert text.startswith("the pod requested 2g.20gb, which was not free, and has 1g.10gb; ")
    assert later in text


def test_granted_request_has_no_warning() -> None:
    assert World(node("n", mig={"2g.20gb": 1})).ask(wants_2g()).answer.warnings == ()
