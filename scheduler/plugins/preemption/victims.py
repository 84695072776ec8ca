"""The victims on one node: as few as the filters allow, the least important ones.

Same as ``pkg/scheduler/framework/plugins/defaultpreemption`` SelectVictimsOnNode. All filters are
asked again after each change, so a pod whose end frees the wrong GPU, MIG slice or device of a
claim is no victim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from scheduler.framework.plugin import Reasons, Refuse, Trial
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.pods.pod import Pod
from scheduler.plugins.preemption.importance import Candidate, by_importance


class NotHelpful(msgspec.Struct, frozen=True):
    """The node does not take the pod even without these pods."""

    reasons: Reasons


def victims_on(
    node_name: str,
    pods: Sequence[Pod],
    trial: Trial,
    budgets: Iterable[DisruptionBudget],
    whole: Collection[str] = (),
) -> Candidate | NotHelpful | None:
    """Which of these pods have to go; None where the budget of the decision is spent.

    With the pods ``whole`` (uids) others end on other nodes.
    """
    for pod in pods:
        trial.remove(pod.uid)
    reasons = trial.reasons()
    if reasons is None or reasons:
        return None if reasons is None else NotHelpful(reasons)
    violating, others = split(by_importance(pods, whole), budgets)
    victims: list[Pod] = []
    violations = 0
    for number, pod in enumerate((*violating, *others)):
        trial.put_back(pod.uid)
        reasons = trial.reasons()
        if reasons is None:
            return None
        if reasons:
            trial.remove(pod.uid)
            victims.append(pod)
            violations += number < len(violating)
    if trial.reasons() is None:
        return None
    reserved = trial.reserve()
    if isinstance(reserved, Refuse):
        return NotHelpful((reserved.reason,))
    going = tuple(by_importance(victims))
    return Candidate(node_name, going, violations, reserved.devices)


def split(pods: Iterable[Pod], budgets: Iterable[DisruptionBudget]) -> tuple[list[Pod], list[Pod]]:
    """Pods whose end would violate a disruption budget, and the others; both keep their order.

    Each pod uses up what the budgets allow of those behind it, also where it is a victim in the
    end or not: upstream counts so too.
    """
    every = tuple(budgets)
    used = [0] * len(every)

    def violates(pod: Pod) -> bool:
        for number, budget in enumerate(every):
            if budget.covers(pod):
                used[number] += 1
                if used[number] > budget.allowed:
                    return True
        return False

    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        (violating if violates(pod) else others).append(pod)
    return violating, others
