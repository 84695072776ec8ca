"""DefaultPreemption: which pods of lower priority have to go so that a pod finds a node.

Same as ``pkg/scheduler/framework/plugins/defaultpreemption``, with kube-scheduler's texts behind
``preemption:``. The answer is a value; ``controllers/preemption`` carries it out.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from scheduler.framework import pod_reads
from scheduler.framework.decision import Preemption, Rejection
from scheduler.framework.plugin import FITS, Plugin, PostFilterContext, Reasons, Refuse
from scheduler.framework.reason_codes import INTERNAL, TOO_COMPLEX
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import DiagnosisHistogram, Reason, is_resolvable
from scheduler.model.reasons.reason_code import ReasonCode
from scheduler.model.teams.team import Team
from scheduler.plugins.preemption import importance
from scheduler.plugins.preemption.importance import Candidate
from scheduler.plugins.preemption.possible_victims import possible_victims, spared_because
from scheduler.plugins.preemption.victims import NotHelpful, split, victims_on
from scheduler.state.dra.ended_claims import ClaimUse
from scheduler.state.gangs.victims import ending_with, others_of
from scheduler.state.teams.awaited import awaited
from scheduler.state.teams.books import TeamBooks

PREFIX: Final = "preemption: "
NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
DEALLOCATING: Final = "not eligible due to claims of ended pods on the nominated node."
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
    """The answer about one node, for these budgets and this state of other objects (``TrialKey``),
    and the steps that it took.
    """

    answer: Candidate | NotHelpful
    budgets: tuple[DisruptionBudget, ...]
    at_node: object
    steps: int


def post_filter(context: PostFilterContext) -> Rejection | None:
    """The pods to preempt and their node, or why there are none."""
    if is_out_of_question(context):
        return None
    rejection = context.rejection
    pod, diagnosis = rejection.pod, rejection.diagnosis
    if pod.never_preempts:
        return _told(rejection, NEVER)
    refused = _not_yet(context)
    if refused is not None:
        # After its last round nothing ends for it any more: it waits for no node.
        waits_on = "" if refused == EXHAUSTED else context.nominated_node
        plan = _expected(context) if waits_on else None
        return _told(rejection, refused, nominated_node=waits_on, plan=plan)
    found, unhelpful = find_candidates(context)
    if not found:
        resolvable = len(rejection.candidates) or diagnosis.summary.resolvable
        text = _sum(diagnosis.total, resolvable, unhelpful)
        if context.work.is_over:
            text = f"{STEPS} after {len(unhelpful)} nodes"
        return _told(rejection, text, unhelpful=unhelpful)
    chosen = importance.best(found)[0]
    plan = None
    if context.view.dra.may_serve(pod):
        gone = [one.uid for one in chosen.victims]
        plan = _planned(context, chosen.node_name, gone)
        if plan is None and context.work.is_over:
            text = f"{STEPS} after {len(found) + len(unhelpful)} nodes"
            return _told(rejection, text, unhelpful=unhelpful)
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
        claims=plan,
        unhelpful=unhelpful,
    )


def post_filter_hint(view: View, pod: Pod, node_name: str, settings: Settings) -> bool:
    """Whether a pod that a changed node does not take may preempt others now.

    A pod that waits for a node may do so when that node changed and nothing ends there any more:
    another pod has the room. Any other pod may do so where a weaker pod is on the node, or
    work that its team may take back.
    """
    if settings.preemption == "off" or pod.never_preempts or pod.uid in view.preemptions.running:
        return False
    nominated = view.nominated.get(pod.uid)
    if nominated is None:
        return _may_reclaim(view, pod, node_name) or any(
            possible_victims(view, pod, node_name, settings)
        )
    return nominated.nominated_node == node_name and not awaited_end(view, pod, node_name, settings)


def _may_reclaim(view: View, pod: Pod, node_name: str) -> bool:
    """Whether a pod inside its team's guarantee may take back what another team borrows there."""
    teams, node_info = view.teams, view.at(node_name)
    team = teams.team_asking(pod) if pod.gpu_requests else None
    if team is None or node_info is None:
        return False
    there = (one for one, _ in node_info.pods.values() if one.gpu_requests)
    if not any(one.is_deleting or _is_lent(teams, team, one) for one in there):
        return False
    others = awaited(teams, team, view.nominated, (pod.uid,), pod.priority)
    asked = teams.asked(pod, teams.kind_at(node_name))
    return teams.is_entitled(team, asked.plus(others))


def _is_lent(teams: TeamBooks, team: Team, pod: Pod) -> bool:
    """Whether another team runs a pod, and is above its guarantee."""
    other = teams.team_of(pod.namespace)
    return other is not None and other.name != team.name and bool(teams.above(other))


def is_out_of_question(context: PostFilterContext) -> bool:
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
        pods = list(possible_victims(context.view, context.rejection.pod, name, context.settings))
        if not pods:
            continue
        has_groups = any(pod.group for pod in pods)
        answer = (_with_groups if has_groups else _tried)(context, name, pods, budgets)
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
    """What comes of one node; an equal pod's answer holds until the node, a budget or what else it
    depends on changes, and takes the steps that it took."""
    key, work = context.trial_key(node_name), context.work
    if key is None:
        return victims_on(node_name, pods, context.trial(node_name), budgets)
    answers = context.view.nodes.memo.of((PLUGIN.name, key.of_pod))
    known = answers.get(node_name)
    if isinstance(known, Tried) and (known.budgets, known.at_node) == (budgets, key.at_node):
        return known.answer if work.spend(known.steps) else None
    before = work.spent
    answer = victims_on(node_name, pods, context.trial(node_name), budgets)
    if answer is not None:
        answers.keep(node_name, Tried(answer, budgets, key.at_node, work.spent - before))
    return answer


def _with_groups(
    context: PostFilterContext,
    node_name: str,
    pods: Sequence[Pod],
    budgets: tuple[DisruptionBudget, ...],
) -> Candidate | NotHelpful | None:
    """What comes of a node with members of groups: the others of a gang that falls below its
    minimum are victims too. Not kept, since members on other nodes count.
    """
    gangs, newcomer = context.view.gangs, context.rejection.pod
    members = [(pod, gangs.of(pod)) for pod in pods if pod.group]
    whole = {pod.uid for pod, gang in members if gang is not None and others_of(gang, pod.uid)}
    answer = victims_on(node_name, pods, context.trial(node_name), budgets, whole)
    if not isinstance(answer, Candidate) or not answer.victims:
        return answer
    others = ending_with(gangs, answer.victims)
    if not others:
        return answer
    if any(spared_because(one, newcomer, context.settings) for one in others):
        return NotHelpful(_NO_VICTIMS)
    going = importance.by_importance([*answer.victims, *others], whole)
    violations = len(split(going, budgets)[0])
    return msgspec.structs.replace(answer, victims=tuple(going), violations=violations)


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
        awaited = awaited_end(context.view, pod, nominated, context.settings)
        if awaited and not is_final:
            return awaited
    return EXHAUSTED if preemptions.is_exhausted(pod.uid) else None


def awaited_end(view: View, pod: Pod, node_name: str, settings: Settings) -> str:
    """What ends soon on the node that a pod waits for: preempted pods, or claims of pods that have
    ended; empty if nothing does.
    """
    victims = possible_victims(view, pod, node_name, settings)
    if any(one.is_deleting and one.is_preempted for one in victims):
        return TERMINATING
    node_info = view.at(node_name)
    if node_info is None or node_info.node is None:
        return ""
    # Teams take back from pods of the same priority too.
    if view.teams.table is not None and any(
        one.is_deleting and one.is_preempted for one, _ in node_info.pods.values()
    ):
        return TERMINATING
    if not view.dra.may_serve(pod):
        return ""
    use = ClaimUse(view.dra, view.pods, view.assumed)
    own = view.dra.keys_of(pod)
    is_ending = any(key not in own and use.ends(key) for key in use.at(node_info.node))
    return DEALLOCATING if is_ending else ""


def _expected(context: PostFilterContext) -> ClaimPlan | None:
    """What the claims of a pod get on its nominated node when all has ended that ends there now: a
    new leader does not know it; None where that is not enough. Victims that are about to be deleted
    end too.
    """
    view, pod, name = context.view, context.rejection.pod, context.nominated_node
    if not name or view.at(name) is None or not view.dra.may_serve(pod):
        return None
    going = view.preemptions.running.get(pod.uid, frozenset())
    there = possible_victims(view, pod, name, context.settings)
    gone = [one.uid for one in there if one.is_deleting or one.uid in going]
    return _planned(context, name, gone)


def _planned(context: PostFilterContext, node_name: str, gone: Sequence[str]) -> ClaimPlan | None:
    """What the claims of the pod get on a node without these pods (uids); None if it gets none, or
    if the budget is spent. Kept answers have no plan: it names the claims.
    """
    trial = context.trial(node_name)
    for uid in gone:
        trial.remove(uid)
    if trial.reasons() != FITS:
        return None
    reserved = trial.reserve()
    return None if isinstance(reserved, Refuse) else reserved.claims


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
    plan: ClaimPlan | None = None,
    unhelpful: Mapping[str, Reasons] | None = None,
) -> Rejection:
    return msgspec.structs.replace(
        rejection,
        diagnosis=rejection.diagnosis.with_post_filter(PREFIX + text),
        nominated_node=nominated_node,
        claims=plan,
        unhelpful=unhelpful or {},
    )


PLUGIN: Final = Plugin(
    name="DefaultPreemption",
    reads=(pod_reads.PREEMPTION,),
    post_filter=post_filter,
    post_filter_hint=post_filter_hint,
)
