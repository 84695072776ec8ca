"""What ``gpuctl why`` makes of a pod, its events, and the decisions API's answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gpuctl import cluster_access
from gpuctl.__main__ import plugin
from gpuctl.cluster_access import Access
from gpuctl.output import why as why_output
from gpuctl.output.why import Why
from gpuctl.pods.pod_facts import PodEvent, PodFacts, Reason, facts_of
from scheduler.decide.explain import Meaning, Outcome, Refusal
from scheduler.decide.score_breakdown import NodeScore, Ranking
from scheduler.model import well_known
from scheduler.model.pods.standing import ENDED, GATED, GOES, PLACED, WAITS, Given
from scheduler.model.timestamps import age
from scheduler.report.decisions.api_types import (
    API_VERSION,
    Admitted,
    Decided,
    PodAnswer,
    Tier,
    Waiting,
)
from tests.builders import pod
from tests.unit.gpuctl.cli import gpuctl

SENTENCE = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu (need 9; best node has 4 free)."
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
ROOM = Meaning(stage="NodeResourcesFit", meaning="m", helps=("room appears",), next_step="ask less")


def refused(message: str = SENTENCE) -> dict[str, Any]:
    """The status of a pod that waits."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": "2026-11-27T11:00:00Z",
    }
    return {"conditions": [condition]}


@pytest.mark.parametrize(
    ("fields", "standing"),
    [
        pytest.param({}, WAITS, id="nothing-decided-yet"),
        pytest.param({"status": refused()}, WAITS, id="refused"),
        pytest.param({"node": "n1"}, PLACED, id="bound"),
        pytest.param({"gates": ["x.example/hold"]}, GATED, id="gated"),
        pytest.param({"node": "n1", "phase": "Succeeded"}, ENDED, id="ended"),
        pytest.param({"node": "n1", "deleting": True}, GOES, id="on-its-way-out"),
    ],
)
def test_how_a_pod_stands(fields: Any, standing: str) -> None:
    assert facts_of(pod("a", **fields)).standing == standing


def test_the_condition_is_told_apart_into_reasons_with_advice() -> None:
    witness = facts_of(pod("a", status=refused()))

    assert witness.message == SENTENCE
    assert witness.since == "2026-11-27T11:00:00Z"
    text = "Insufficient nvidia.com/gpu (need 9; best node has 4 free)"
    assert witness.reasons == (Reason(text=text, count=2, code="INSUFFICIENT"),)
    assert witness.codes["INSUFFICIENT"].stage == "NodeResourcesFit"


def test_a_condition_that_is_true_is_no_reason() -> None:
    status = {"conditions": [{"type": "PodScheduled", "status": "True", "message": "old"}]}

    assert facts_of(pod("a", node="n1", status=status)).message == ""


def test_the_annotations_say_what_was_given() -> None:
    told = {
        "gpu-scheduler.io/cuda-visible-devices": "2,3",
        "gpu-scheduler.io/decision": "ab-1",
        "gpu-scheduler.io/epoch": "4",
        "gpu-webhook.k8s.io/fallback": "2g.20gb->1g.10gb",
        "adapter.gpu.turbonomic.ibm.com/original": "{}",
    }

    job: dict[str, Any] = {
        "owner": "Job/j",
        "map": "0=n1:2,3",
        "labels": {well_known.JOB_INDEX: "0"},
    }
    mapped = pod("a", node="n1", devices="gpu:2,3", index=0, annotations=told, **job)
    given = facts_of(mapped).given

    assert given == Given(
        devices="gpu:2,3",
        index="0",
        index_source="0: completion index of an Indexed Job"
        " (batch.kubernetes.io/job-completion-index=0)",
        cuda_visible_devices="2,3",
        fallback="2g.20gb->1g.10gb",
        original="{}",
        decision="ab-1",
        epoch="4",
    )


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-11-27T11:59:58.123456Z", "1s"),
        ("2026-11-27T11:55:00Z", "5m"),
        ("2026-11-27T09:30:00Z", "2h30m"),
        ("2026-11-27T09:00:00Z", "3h"),
        ("2026-11-20T12:00:00Z", "7d"),
        ("2026-11-27T13:00:00Z", "0s"),
        ("", ""),
        ("yesterday", ""),
    ],
)
def test_ages_are_as_kubectl_says_them(moment: str, expected: str) -> None:
    assert age(moment, NOW) == expected


# --- the text -----------------------------------------------------------------------------------


def waiting_pod(**more: Any) -> PodFacts:
    made = facts_of(pod("a", status=refused()))
    return msgspec.structs.replace(made, **more)


def shown(capsys: pytest.CaptureFixture[str], found: Why, *, wide: bool = False) -> str:
    why_output.show_why(found, wide=wide)
    return capsys.readouterr().out


def told_by(witness: PodFacts | None, answer: PodAnswer | None = None, **more: Any) -> Why:
    waits = answer is not None and answer.waiting is not None
    if witness is not None:
        waits = witness.standing in (WAITS, GATED)
    return Why(namespace="team", pod="a", waits=waits, witness=witness, answer=answer, **more)


def answered(outcome: Outcome | None = None, **more: Any) -> PodAnswer:
    return PodAnswer(
        api_version=API_VERSION,
        namespace="team",
        pod="a",
        leads=True,
        now=outcome,
        codes={"INSUFFICIENT": ROOM},
        **more,
    )


def short(node: str, *, is_final: bool = False) -> Refusal:
    return Refusal(
        node=node,
        stage="NodeResourcesFit",
        code="INSUFFICIENT",
        text="Insufficient nvidia.com/gpu (need 9; 4 free)",
        resource="nvidia.com/gpu",
        need=9,
        have=4,
        is_final=is_final,
    )


def decided(outcome: Outcome, **more: Any) -> Decided:
    return Decided(
        id="ab-7",
        time="2026-11-27T11:00:00Z",
        namespace="team",
        pod="a",
        uid="u",
        attempt=3,
        generation=1,
        outcome=outcome,
        **more,
    )


def test_the_pod_alone_says_the_stored_answer_with_its_age(
    capsys: pytest.CaptureFixture[str],
) -> None:
    event = PodEvent(
        time="2026-11-27T11:00:00Z", kind="Warning", reason="FailedScheduling", text=SENTENCE
    )

    text = shown(capsys, told_by(waiting_pod(events=(event,)), more=("forward", "again")))

    assert text.startswith("team/a waits (for ")
    assert f" ago: {SENTENCE}" in text
    assert text.count(SENTENCE) == 1
    assert "nodes   2 Insufficient nvidia.com/gpu (need 9; best node has 4 free)" in text
    assert "do one  request less" in text
    assert "(INSUFFICIENT)" in text
    assert "FailedScheduling        as above" in text
    assert "an admin can run" in text
    assert "\n  forward\n  again\n" in text


def test_wide_has_the_stages_and_the_events_that_requeue_the_pod(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(capsys, told_by(waiting_pod()), wide=True)

    assert "2      NodeResourcesFit  INSUFFICIENT  Insufficient nvidia.com/gpu" in text
    assert "what to do\n  INSUFFICIENT  request less" in text
    assert "tried again when\n  INSUFFICIENT  a pod on a node was deleted" in text


def test_the_api_answers_node_by_node_and_with_what_was_tried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcome = Outcome(message=SENTENCE, total=2, refusals=(short("n1"), short("n2", is_final=True)))
    answer = answered(
        outcome,
        waiting=Waiting(place="backoff", attempts=1, waits_s=61.0, next_try_s=1.5),
        decisions=(decided(outcome),),
        admission=Admitted(
            time="2026-11-27T11:00:00Z",
            result="degraded",
            asked="2g.20gb",
            granted="1g.10gb",
            tried=(Tier(tier="2g.20gb", message="0/1 nodes"),),
        ),
    )

    text = shown(capsys, told_by(waiting_pod(), answer), wide=True)

    assert "in the queue for 61 s (backoff), tried 1 time, the next one in 1.5 s" in text
    assert (
        "n1    NodeResourcesFit  INSUFFICIENT  Insufficient nvidia.com/gpu (need 9; 4 free)\n"
        in text
    )
    assert "need 9; 4 free), even when empty\n" in text
    assert "INSUFFICIENT  ask less" in text
    assert "degraded: 2g.20gb->1g.10gb" in text
    assert "  2g.20gb: 0/1 nodes" in text
    assert "ab-7      3    as above" in text


def test_only_wide_has_a_line_for_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = tuple(short(f"node-{number:02}") for number in range(30))
    answer = answered(Outcome(message=SENTENCE, total=30, refusals=nodes))

    assert "node-29" not in shown(capsys, told_by(waiting_pod(), answer))
    assert "node-29" in shown(capsys, told_by(waiting_pod(), answer), wide=True)


def test_placed_pod_shows_its_devices_and_the_runner_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ranking = Ranking(
        NodeScore("n1", 0, 1, 0, 500), NodeScore("n2", 0, 3, 0, 500), "requested_left", 2
    )
    outcome = Outcome(node="n1", devices="gpu x 1")
    answer = answered(decisions=(decided(outcome, ranking=ranking, end="bound"),))
    witness = facts_of(pod("a", node="n1", devices="gpu x 1"))

    text = shown(capsys, told_by(witness, answer))

    assert text.startswith("team/a is on n1 (for ")
    assert "decided by what is left of the requested devices (by 2)" in text
    assert "n2    0             3               0           0.5" in text
    assert "ab-7      3    on n1 (gpu x 1); Binding bound" in text


@pytest.mark.parametrize(
    ("witness", "expected"),
    [
        pytest.param(
            facts_of(pod("a")),
            "it has no condition and no event yet; is gpu-scheduler running?",
            id="no-condition-and-no-event",
        ),
        pytest.param(
            facts_of(pod("a", scheduler="default-scheduler", status=refused())),
            "add spec.schedulerName: gpu-scheduler",
            id="of-another-scheduler",
        ),
        pytest.param(
            facts_of(pod("a", gates=["x.example/hold"])),
            "waits behind its scheduling gates: x.example/hold",
            id="gated",
        ),
        pytest.param(
            waiting_pod(remarks=("events cannot be read: 403",)),
            "remarks\n  events cannot be read: 403",
            id="a-right-that-is-missing",
        ),
    ],
)
def test_what_else_may_be_said(
    capsys: pytest.CaptureFixture[str], witness: PodFacts, expected: str
) -> None:
    assert expected in shown(capsys, told_by(witness, remarks=witness.remarks))


def test_nothing_in_a_pods_words_reaches_the_terminal_as_a_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Texts in a pod's annotations and events must not control the terminal."""
    evil = "\x1b]0;owned\x07[red]x\u202e"
    event = PodEvent(time="", kind="Warning", reason=evil, text=evil)
    given = Given(devices=evil, original=evil)

    text = shown(capsys, told_by(waiting_pod(message=evil, events=(event,), given=given)))

    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[red]x" in text


@pytest.mark.parametrize(("wide", "line"), [(False, "ab-1\n"), (True, "ab-1 (term 218055145)\n")])
def test_only_the_wide_answer_has_the_term(
    capsys: pytest.CaptureFixture[str], wide: bool, line: str
) -> None:
    given = Given(decision="ab-1", epoch="218055145")

    assert f"decision  {line}" in shown(capsys, told_by(waiting_pod(given=given)), wide=wide)


def test_nodes_of_the_granted_tier_are_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    given = Given(tier_nodes="gpu-type=a100,nvidia.com/gpu.memory>=15401")

    text = shown(capsys, told_by(waiting_pod(given=given)))

    assert "only nodes with  gpu-type=a100, GPUs of at least 15.0Gi (15401 MiB)" in text


def test_misuse_is_no_answer() -> None:
    """2 would mean that the pod waits."""
    assert gpuctl("why", "a", "--nonsense").status == 1
    result = gpuctl("why", "other/a", "-n", "team")
    assert result.status == 1
    assert "other/a and --namespace team are different namespaces" in result.err


def test_as_a_plugin_it_calls_itself_by_the_plugins_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl-gpu_scheduler", "why", "-h"])
    with pytest.raises(SystemExit) as ended:
        plugin()

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl gpu-scheduler why [OPTIONS] ")


def test_a_kubeconfig_that_is_not_there_is_one_line() -> None:
    result = gpuctl("why", "a", "--kubeconfig", "nowhere.yaml")

    assert (result.status, result.out) == (1, "")
    assert result.err == "gpuctl why: nowhere.yaml: no such kubeconfig file\n"


@pytest.mark.parametrize(
    ("access", "pod_name", "expected"),
    [
        pytest.param(
            Access(),
            "gpu-scheduler-7d9-x2",
            "kubectl --namespace gpu-scheduler-system port-forward pod/gpu-scheduler-7d9-x2"
            " 8090:8090",
            id="the-leader-is-known",
        ),
        pytest.param(
            Access(kubeconfig="my file", context="prod", lease_namespace="gpu", lease_name="s"),
            None,
            "kubectl --context prod --namespace gpu port-forward deployment/s 8090:8090",
            id="the-leader-is-unknown",
        ),
    ],
)
def test_admins_command_to_forward_has_no_file_of_the_user(
    access: Access, pod_name: str | None, expected: str
) -> None:
    forward, again = cluster_access.by_hand(access, pod_name, "gpuctl why a")

    assert forward == expected
    assert again == "gpuctl why a --server http://127.0.0.1:8090"
