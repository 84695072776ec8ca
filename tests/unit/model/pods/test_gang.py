"""What pods say about their gang."""

from __future__ import annotations

import pytest

from scheduler.model.limits import GANG_MEMBERS_MAX
from scheduler.model.pods.gang import GangKey, GangMark, GangSource
from tests.builders import pod
from tests.gangs import COSCHEDULING

OWN = {"gpu-scheduler.io/group": "a"}
KUEUE = {"kueue.x-k8s.io/pod-group-name": "k"}
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
FAST = "kueue.x-k8s.io/pod-group-fast-admission"
LWS = "leaderworkerset.sigs.k8s.io/"
PARENT = "kueue.x-k8s.io/pod-suspending-parent"


VOLCANO = {"scheduling.k8s.io/group-name": "v"}


def mark(source: GangSource, name: str, minimum: int | None, role: str = "") -> GangMark:
    return GangMark(GangKey("team", source.value, name), minimum, role)


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        pytest.param({}, {}, None, id="no group"),
        pytest.param(OWN, {}, None, id="no minimum"),
        pytest.param(
            OWN, {"gpu-scheduler.io/group-min": "3"}, mark(GangSource.OWN, "a", 3), id="ours"
        ),
        pytest.param(
            {COSCHEDULING: "b"}, {}, mark(GangSource.COSCHEDULING, "b", None), id="PodGroup"
        ),
        pytest.param(
            {"pod-group.scheduling.sigs.k8s.io": "b"},
            {},
            mark(GangSource.COSCHEDULING, "b", None),
            id="PodGroup by the old label",
        ),
        pytest.param(KUEUE, {TOTAL: "4"}, mark(GangSource.KUEUE, "k", 4), id="Kueue"),
        pytest.param(
            {}, {**KUEUE, TOTAL: "4"}, mark(GangSource.KUEUE, "k", 4), id="Kueue's annotation"
        ),
        pytest.param(
            {"kueue.x-k8s.io/pod-group-name": "old"},
            {**KUEUE, TOTAL: "4"},
            mark(GangSource.KUEUE, "k", 4),
            id="Kueue's annotation before its label",
        ),
        pytest.param(KUEUE, {}, None, id="Kueue without a count"),
        pytest.param(
            KUEUE, {TOTAL: "4", FAST: "true"}, None, id="Kueue admits the first pod alone"
        ),
        pytest.param(
            {},
            {**KUEUE, TOTAL: "4", PARENT: "statefulset"},
            None,
            id="Kueue groups the pods of a StatefulSet",
        ),
        pytest.param(
            {**OWN, COSCHEDULING: "b", **KUEUE},
            {"gpu-scheduler.io/group-min": "3", TOTAL: "4"},
            mark(GangSource.OWN, "a", 3),
            id="the first source counts",
        ),
        pytest.param(
            {LWS + "name": "l", LWS + "group-index": "1", **KUEUE},
            {
                TOTAL: "4",
                PARENT: "leaderworkerset.x-k8s.io/leaderworkerset",
                LWS + "size": "4",
                "gpu-scheduler.io/group-from": "owner",
            },
            mark(GangSource.LEADER_WORKER_SET, "l/1", 4),
            id="a LeaderWorkerSet that asks for it, beside Kueue",
        ),
        pytest.param(
            {}, {**VOLCANO, "volcano.sh/task-spec": "w"}, mark(GangSource.VOLCANO, "v", None, "w")
        ),
        pytest.param(
            {},
            {"scheduling.volcano.sh/group-name": "v"},
            mark(GangSource.VOLCANO, "v", None),
            id="Volcano by the other annotation",
        ),
        pytest.param(
            {"kai.scheduler/subgroup-name": "decode"},
            {"pod-group-name": "k"},
            mark(GangSource.KAI, "k", None, "decode"),
            id="KAI",
        ),
        pytest.param(
            {"grove.io/podgang": "g", "grove.io/podclique": "g-decode"},
            {},
            mark(GangSource.GROVE, "g", None, "g-decode"),
            id="Grove",
        ),
        pytest.param(
            KUEUE, {TOTAL: "4", **VOLCANO}, mark(GangSource.KUEUE, "k", 4), id="Kueue first"
        ),
    ],
)
def test_the_first_source_with_a_group_counts(
    labels: dict[str, str], annotations: dict[str, str], expected: GangMark | None
) -> None:
    assert pod("p", labels=labels, annotations=annotations).gang == expected


@pytest.mark.parametrize("text", ["0", "-1", "many", "", str(GANG_MEMBERS_MAX + 1), "9" * 5000])
def test_a_minimum_that_is_no_number_is_a_problem(text: str) -> None:
    found = pod("p", labels=OWN, annotations={"gpu-scheduler.io/group-min": text})

    assert found.gang is None
    assert found.problem.startswith("gpu-scheduler.io/group-min: ")
    assert len(found.problem) < 120


def test_members_of_our_group_share_a_tier() -> None:
    assert pod("p", labels=OWN).group == "a"


@pytest.mark.parametrize(
    ("more", "group"),
    [
        pytest.param({}, "k", id="its author made it"),
        pytest.param({PARENT: "statefulset"}, "", id="Kueue made it of a StatefulSet"),
        pytest.param({FAST: "true"}, "", id="Kueue admits the first pod alone"),
    ],
)
def test_a_pod_group_of_kueue_is_a_group_where_all_start_together(
    more: dict[str, str], group: str
) -> None:
    assert pod("p", annotations={**KUEUE, TOTAL: "4", **more}).group == group
