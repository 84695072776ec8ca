"""DefaultPreemption: which pods of lower priority have to go so that a pod finds a node.

Same as ``pkg/scheduler/framework/plugins/defaultpreemption``, with kube-scheduler's texts behind
``preemption:``. The answer is a value; ``controllers/preemption`` carries it out.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from scheduler.framework import pod_reads
from scheduler.framework.decision import Preemption, Rejection
from scheduler.framework.plugin import Plugin, PostFilterContext, Reasons
from scheduler.framework.reason_codes import INTERNAL, TOO_COMPLEX
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import DiagnosisHistogram, Reason, is_resolvable
from scheduler.model.reasons.reason_code import ReasonCode
from scheduler.plugins.preemption import importance
from scheduler.plugins.preemption.importance import Candidate
from scheduler.plugins.preemption.victims import NotHelpful, victims_on

PREFIX: Final = "preemption: "
NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
EXHAUSTED: Final = "not eligible: the pod preempted others five times within ten minutes."
STEPS: Final = "not decided: the search for victims took more steps than one decision may take,"
#: kube-scheduler's minCandidateNodesAbsolute and minCandidateNodesPercentage.
CANDIDATES_MIN: Final = 100
CANDIDATES_SHARE: Final = 10

#: Counted like reasons of nodes, and no reasons of rejections: nothing waits for them.
_UPSTREAM = ReasonCode(
    name="PREEMPTION",
    meaning="what preemption came to on a node",
    lifted_by=(),
    stage="DefaultPreemption",
    next_step="resolve the node's own reason",
    words=(),
)
_NO_VICTIMS: Final = (Reason(code=_UPSTREAM, text="No preemption victims found for incoming pod"),)
_NOT_HELPFUL: Final = (
    Reason(code=_UPSTREAM, text="Preemption is not helpful for scheduling", resolvable=False),
)


class Tried(msgspec.Struct, frozen=True):
    """The answer about one node, and the steps that it took."""

    answer: Candidate | NotHelpful
    budgets: tuple[DisruptionBudget, ...]
    steps: int


def post_filter(context: PostFilterContext) -> Rejection | None:
    """The pods to preempt and their node, or why there are none."""
    if _is_out_of_question(context):
        return None
    rejection = context.rejection
    pod, diagnosis = rejection.pod, rejection.diagnosis
    if pod.never_preempts:
        return _told(rejection, NEVER)
    refused = _not_yet(context)
    if refused is not None:
        return _told(rejection, refused, nominated_node=context.nominated_node)
    found, unhelpful = find_candidates(context)
    if not found:
        resolvable = len(rejection.candidates) or diagnosis.summary.resolvable
        text = _sum(diagnosis.total, resolvable, unhelpful)
        if context.work.is_over:
            text = f"{STEPS} after {len(unhelpful)} nodes"
        return _told(rejection, text, unhelpful=unhelpful)
    chosen = importance.best(found)[0]
    text = (
        f"found a potential placement for pod on node {chosen.node_name},"
        f" preempting {len(chosen.victims)} victims"
    )
    return Preemption(
        pod=pod,
        diagnosis=diagnosis.with_post_filter(PREFIX + text),
        node_name=rejection.node_name,
        nominated_node=chosen.node_name,
        victims=chosen.victims,
        violations=chosen.violations,
        devices=chosen.devices,
        unhelpful=unhelpful,
    )


def _is_out_of_question(context: PostFilterContext) -> bool:
    """Whether preemption is off, or the end of no pod would help: nothing is said about it."""
    rejection, settings = context.rejection, context.settings
    diagnosis = rejection.diagnosis
    if settings.preemption == "off" or rejection.pod.scheduler_name != settings.scheduler_name:
        return True
    if diagnosis.impossible is not None or diagnosis.codes() & {TOO_COMPLEX, INTERNAL}:
        return True
    return diagnosis.general is not None and not rejection.candidates


def find_candidates(
    context: PostFilterContext,
) -> tuple[list[Candidate], Mapping[str, Reasons]]:
    """Nodes that would take the pod without their victims, and why others would not.

    As many nodes are tried as kube-scheduler would: until a tenth of them, and at least 100, are
    candidates and one of these violates no disruption budget; or until the budget is spent.
    """
    budgets = tuple(context.view.preemptions.budgets.values())
    names = _potential_nodes(context)
    wanted = max(CANDIDATES_MIN, len(names) * CANDIDATES_SHARE // 100)
    offset = zlib.crc32(context.rejection.pod.uid.encode()) % max(1, len(names))
    found: list[Candidate] = []
    unhelpful: dict[str, Reasons] = {}
    for name in (*names[offset:], *names[:offset]):
        pods = list(possible_victims(context, name))
        if not pods:
            continue
        answer = _tried(context, name, pods, budgets)
        if answer is None:
            break
        if isinstance(answer, NotHelpful):
            unhelpful[name] = answer.reasons
        elif answer.victims:
            found.append(answer)
            if len(found) >= wanted and any(not one.violations for one in found):
                break
    return found, unhelpful


def _tried(
    context: PostFilterContext,
    node_name: str,
    pods: Sequence[Pod],
    budgets: tuple[DisruptionBudget, ...],
) -> Candidate | NotHelpful | None:
    """What comes of one node; an equal pod's answer holds until the node or a budget changes, and
    takes the steps that it took."""
    key, work = context.trial_key(node_name), context.work
    answers = context.view.nodes.memo.of((PLUGIN.name, key)) if key is not None else None
    known = answers.get(node_name) if answers is not None else None
    if isinstance(known, Tried) and known.budgets == budgets:
        return known.answer if work.spend(known.steps) else None
    before = work.spent
    answer = victims_on(node_name, pods, context.trial(node_name), budgets)
    if answers is not None and answer is not None:
        answers.keep(node_name, Tried(answer, budgets, work.spent - before))
    return answer


def possible_victims(context: PostFilterContext, node_name: str) -> Iterator[Pod]:
    """The pods on a node that are less important than the preemptor and may be preempted.

    A pod that cannot be read may have another priority than what was read of it.
    """
    settings, priority = context.settings, context.rejection.pod.priority
    node_info = context.view.at(node_name)
    for pod, _ in node_info.pods.values() if node_info is not None else ():
        is_ours = pod.scheduler_name == settings.scheduler_name
        if pod.priority < priority and not pod.unread and (is_ours or settings.preemption == "all"):
            yield pod


def _potential_nodes(context: PostFilterContext) -> list[str]:
    """The nodes where the end of pods could help and that have pods of lower priority, by name."""
    view, rejection = context.view, context.rejection
    of_any = context.settings.preemption == "all"
    occupied = set(view.nodes.priorities.below(rejection.pod.priority, ours=not of_any))
    if rejection.candidates:
        names = occupied.intersection(rejection.candidates)
    else:
        nodes = rejection.diagnosis.nodes
        names = {name for name in occupied if is_resolvable(nodes.get(name, ()))}
    return sorted(names)


def _not_yet(context: PostFilterContext) -> str | None:
    """Why the pod may not preempt others now, and waits where it waits; None where it may."""
    pod, preemptions = context.rejection.pod, context.view.preemptions
    if pod.uid in preemptions.running:
        return TERMINATING
    nominated = context.nominated_node
    if nominated:
        reasons = context.rejection.diagnosis.nodes.get(nominated, ())
        is_final = bool(reasons) and not is_resolvable(reasons)
        victims = possible_victims(context, nominated)
        if not is_final and any(one.is_deleting and one.is_preempted for one in victims):
            return TERMINATING
    return EXHAUSTED if preemptions.is_exhausted(pod.uid) else None


def _sum(total: int, resolvable: int, unhelpful: Mapping[str, Reasons]) -> str:
    """kube-scheduler's sentence about the nodes on which preemption was tried, or was not."""
    histogram = DiagnosisHistogram()
    for reasons in unhelpful.values():
        histogram.add(reasons)
    without = max(0, resolvable - len(unhelpful))
    for reasons, count in ((_NO_VICTIMS, without), (_NOT_HELPFUL, total - resolvable)):
        if count > 0:
            histogram.add(reasons, count)
    return histogram.summary(total).message


def _told(
    rejection: Rejection,
    text: str,
    *,
    nominated_node: str = "",
    unhelpful: Mapping[str, Reasons] | None = None,
) -> Rejection:
    return msgspec.structs.replace(
        rejection,
        diagnosis=rejection.diagnosis.with_post_filter(PREFIX + text),
        nominated_node=nominated_node,
        unhelpful=unhelpful or {},
    )


PLUGIN: Final = Plugin(
    name="DefaultPreemption",
    reads=(pod_reads.PREEMPTION,),
    post_filter=post_filter,
)
