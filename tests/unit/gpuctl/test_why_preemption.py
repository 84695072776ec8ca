"""What `gpuctl why` says of preemption: the victims, and why there are none."""

from __future__ import annotations

import pytest

from scheduler.decide.explain import Outcome, PreemptionOutcome, SparedPods, VictimOutcome
from tests.unit.gpuctl.test_why import SENTENCE, answered, short, shown, told_by, waiting_pod


def test_the_pods_that_have_to_go_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    victim = VictimOutcome(namespace="team", pod="low", priority=5, scheduler="gpu-scheduler")
    preempts = PreemptionOutcome(
        node="n1", victims=(victim,), violations=1, claims="mine (gpu.nvidia.com/n1/gpu-0)"
    )
    outcome = Outcome(message=SENTENCE, total=1, refusals=(short("n1"),), preemption=preempts)

    text = shown(capsys, told_by(waiting_pod(), answered(outcome)), wide=True)

    assert "has to go on node n1 (1 of them against a PodDisruptionBudget)\n" in text
    assert "team/low  5         gpu-scheduler" in text
    assert "for the claims\n  mine (gpu.nvidia.com/n1/gpu-0)" in text


def test_victims_that_would_have_to_go_are_named_with_the_bar(
    capsys: pytest.CaptureFixture[str],
) -> None:
    victim = VictimOutcome(namespace="team", pod="low", priority=5, scheduler="gpu-scheduler")
    spared = (SparedPods("equal or higher priority", 3),)
    preempts = PreemptionOutcome(node="n1", victims=(victim,), barred="Never.", spared=spared)
    outcome = Outcome(message=SENTENCE, total=1, refusals=(short("n1"),), preemption=preempts)

    text = shown(capsys, told_by(waiting_pod(), answered(outcome)), wide=True)

    assert "preempts no pod\n  Never.\n" in text
    assert "would have to go on node n1\n" in text
    assert "team/low  5         gpu-scheduler" in text
    assert "on the nodes where the end of pods could help\n" in text
    assert "3     equal or higher priority" in text


def test_pods_that_may_not_be_preempted_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    preempts = PreemptionOutcome(spared=(SparedPods("another scheduler's pod", 2),))
    outcome = Outcome(message=SENTENCE, total=1, refusals=(short("n1"),), preemption=preempts)

    text = shown(capsys, told_by(waiting_pod(), answered(outcome)), wide=True)

    assert "2     another scheduler's pod" in text
    assert "even without every pod" not in text


def test_nodes_that_preemption_does_not_help_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    preempts = PreemptionOutcome(refusals=(short("n2"),))
    outcome = Outcome(message=SENTENCE, total=1, refusals=(short("n1"),), preemption=preempts)

    text = shown(capsys, told_by(waiting_pod(), answered(outcome)), wide=True)

    assert "even without every pod that may be preempted\n" in text
    assert text.count("n2    NodeResourcesFit  INSUFFICIENT") == 1
