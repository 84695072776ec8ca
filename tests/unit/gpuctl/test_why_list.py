"""`gpuctl why` about several pods: those that wait, grouped by reason, and likely mistakes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from rich.console import Console

from gpuctl.likely_mistakes import notices
from gpuctl.our_scheduler import OurScheduler
from gpuctl.output import waiting
from gpuctl.output.waiting import WaitingPods, waiting_pods
from scheduler.decide.remedy.outlook import CanStart, Outlook
from scheduler.model.pods.pod import Pod
from tests.builders import pod
from tests.unit.gpuctl.test_why import refused
from tests.unit.gpuctl.test_why_summary import OUTLOOK

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


def blocked(name: str, need: int = 8, **fields: Any) -> Pod:
    """A pod that waits for GPUs."""
    text = f"Insufficient nvidia.com/gpu (need {need}; best node has 4 free)"
    message = f"0/3 nodes are available: 2 {text}, 1 node(s) were unschedulable."
    return pod(name, gpus=need, status=refused(message), **fields)


def printed(found: WaitingPods, *, wide: bool = False, width: int = 100) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(waiting.render(found, NOW, wide=wide))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def test_pods_with_the_same_reasons_share_a_group() -> None:
    alone = pod("gated", gates=["x.example/hold"])

    found = waiting_pods([blocked("a", 8), alone, blocked("b", 6)], is_named=False)

    assert [[one.pod for one in group.pods] for group in found.groups] == [["a", "b"], ["gated"]]
    assert found.groups[0].reasons == (
        "Insufficient nvidia.com/gpu",
        "node(s) were unschedulable",
    )
    assert found.groups[1].reasons == ("scheduling gate x.example/hold",)


def test_oldest_pod_is_first() -> None:
    found = waiting_pods([blocked("new", created=50), blocked("old", created=2)], is_named=False)

    assert [one.pod for one in found.groups[0].pods] == ["old", "new"]


@pytest.mark.parametrize(
    ("other", "is_named", "count"),
    [
        pytest.param(pod("a", node="n1"), False, 0, id="placed"),
        pytest.param(pod("a", scheduler="default-scheduler"), False, 0, id="of-another-scheduler"),
        pytest.param(pod("a", scheduler="default-scheduler"), True, 1, id="named"),
        pytest.param(pod("a", scheduler="default-scheduler", gpus=1), False, 1, id="asks-for-gpus"),
    ],
)
def test_only_pods_that_concern_gpus_or_are_named_are_listed(
    other: Pod, is_named: bool, count: int
) -> None:
    found = waiting_pods([other], is_named=is_named)

    assert (len(found.groups), found.others) == (count, 1 - count)


def test_group_names_its_pods_their_ages_and_what_to_do() -> None:
    found = waiting_pods([blocked(f"p{at}", namespace="team") for at in range(7)], is_named=False)
    group = msgspec.structs.replace(found.groups[0], outlook=OUTLOOK)
    found = msgspec.structs.replace(found, groups=(group,))

    lines = printed(found).splitlines()

    assert lines[0] == "7 pods: Insufficient nvidia.com/gpu; node(s) were unschedulable"
    assert lines[1] == "  the oldest CAN start later: when pods on 43 nodes end"
    assert lines[3].split() == ["team/p0", "8", "nvidia.com/gpu", "2h"]
    assert "  and 2 more (-o wide)" in lines
    assert "  ->  request 4 nvidia.com/gpu instead of 8 -> starts now on h100-12" in lines
    assert "NODE_UNSCHEDULABLE" not in printed(found)
    assert "team/p6" in printed(found, wide=True)


def test_group_without_a_remedy_has_the_next_step_of_each_code() -> None:
    text = printed(waiting_pods([blocked("a")], is_named=False))

    assert "kubectl uncordon NODE (NODE_UNSCHEDULABLE)" in text
    assert "(INSUFFICIENT)" in text


def test_list_fits_sixty_columns() -> None:
    text = printed(waiting_pods([blocked("train-bert-large-0")], is_named=False), width=60)

    assert max(map(len, text.splitlines())) <= 60
    assert "team/train-bert-large-0" in text


def test_no_waiting_pod_is_one_line() -> None:
    assert printed(waiting_pods([], is_named=False)) == "no pod waits"
    placed = waiting_pods([pod("a", node="n1")], is_named=False)
    assert printed(placed) == "no pod waits (1 have a node, have ended or ask for no GPU)"


def test_outlook_of_a_group_is_serialized() -> None:
    found = waiting_pods([blocked("a")], is_named=False)
    outlook = Outlook(can_start=CanStart.NEVER, text="requests 16")
    group = msgspec.structs.replace(found.groups[0], outlook=outlook)

    encoded = msgspec.json.decode(msgspec.json.encode(group))

    assert encoded["outlook"] == {"canStart": "never", "text": "requests 16"}
    assert encoded["pods"][0]["asks"] == {"nvidia.com/gpu": "8"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, (), id="nothing"),
        pytest.param(
            {"scheduler": "default-scheduler"},
            (
                "its scheduler is default-scheduler, not gpu-scheduler; to be placed by"
                " gpu-scheduler, add spec.schedulerName: gpu-scheduler",
            ),
            id="scheduler-forgotten",
        ),
        pytest.param(
            {"scheduler": "gpu-schedular"},
            (
                "no scheduler gpu-schedular may exist; did you mean spec.schedulerName:"
                " gpu-scheduler?",
            ),
            id="scheduler-misspelt",
        ),
        pytest.param({"scheduler": "default-scheduler", "node": "n1"}, (), id="placed-by-another"),
        pytest.param(
            {"annotations": {"gpu-scheduler.io/gpu-mem": "16Gi"}},
            (
                "annotation gpu-scheduler.io/gpu-mem is unknown; did you mean"
                " gpu-scheduler.io/gpu-memory?",
            ),
            id="annotation-misspelt",
        ),
        pytest.param(
            {"annotations": {"gpu-scheduler/mig-fallback": "1g.10gb"}},
            (
                "annotation gpu-scheduler/mig-fallback is unknown; did you mean"
                " gpu-scheduler.io/mig-fallback?",
            ),
            id="prefix-misspelt",
        ),
        pytest.param(
            {"annotations": {"gpu-scheduler.io/colour": "red"}},
            ("annotation gpu-scheduler.io/colour is unknown, and ignored",),
            id="annotation-unknown",
        ),
        pytest.param(
            {
                "annotations": {
                    "gpu-scheduler.io/gpu-memory": "16Gi",
                    "gpu-scheduler.io/cuda-visible-devices.1": "0",
                    "gpu-scheduler.io/decision": "a-1",
                    "example.com/gpu": "x",
                }
            },
            (),
            id="known-annotations",
        ),
    ],
)
def test_likely_mistakes_come_with_the_correction(fields: Any, expected: tuple[str, ...]) -> None:
    annotations = fields.get("annotations", {})
    read = msgspec.structs.replace(pod("a", **fields), annotations=annotations)

    assert notices(read, OurScheduler()) == expected


@pytest.mark.parametrize(
    ("name", "count"),
    [
        pytest.param("team-scheduler", 0, id="may-be-the-installed-one"),
        pytest.param("default-scheduler", 1, id="of-kubernetes"),
        pytest.param("gpu-schduler", 1, id="misspelt"),
    ],
)
def test_unknown_name_of_the_installation_may_be_any(name: str, count: int) -> None:
    assert len(notices(pod("a", scheduler=name), OurScheduler(is_known=False))) == count
