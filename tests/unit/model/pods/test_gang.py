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
        pytest.param(KUEUE, {}, None, id="Kueue without a count"),
        pytest.param(
            {**OWN, COSCHEDULING: "b", **KUEUE},
            {"gpu-scheduler.io/group-min": "3", TOTAL: "4"},
            mark(GangSource.OWN, "a", 3),
            id="the first source counts",
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
