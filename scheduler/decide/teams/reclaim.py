"""Which work of other teams has to end so that a pod inside its team's guarantee finds room.

Asked where no pod of lower priority makes room. The placement is planned on a node without the
victims before any of them is chosen, beside the pods that are nominated for the node; what ends
already is gone there. The reclaimer is inside its guarantee afterwards, with what the devices of
that node are worth, and a victim's team was above its own: so two teams never evict each other in
turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from scheduler.decide.teams.lent_work import (
    Lent,
    LentWork,
    Wanted,
    has_claims,
    is_entitled,
    lent_work,
    wanted_by,
)
from scheduler.framework.decision import Preemption, Rejection
from scheduler.framework.plugin import FITS, PostFilterContext, Refuse, Trial
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import is_resolvable
from scheduler.model.teams.amount import NOTHING, GpuAmount
from scheduler.model.teams.team import Team
from scheduler.plugins.preemption.plugin import is_out_of_question
from scheduler.state.teams.books import total

PREFIX: Final = "reclaim: "
#: Pods that are looked at in one step of the budget.
PODS_OF_A_STEP: Final = 16
#: Nodes with a plan after which no more are tried.
PLANS_MAX: Final = 100


class _Plan(msgspec.Struct, frozen=True):
    """A node that takes the pod once this work has ended."""

    node_name: str
    work: tuple[LentWork, ...]
    devices: Devices

    @property
    def released(self) -> GpuAmount:
        return total(one.amount for one in self.work)


def reclaim(context: PostFilterContext, rejection: Rejection) -> Rejection:
    """The rejection as it is, with the reason why nothing is taken back, or a ``Preemption``."""
    view, pod = context.view, rejection.pod
    if rejection.nominated_node or not _may_ask(context, rejection):
        return rejection
    team = view.teams.team_asking(pod)
    if team is None:
        return rejection
    rejection = asking(rejection, team)
    wanted = wanted_by(view, team, [pod], view.teams.least_asked(pod))
    if not is_entitled(view.teams, wanted):
        return rejection
    context.work.spend(len(view.pods) // PODS_OF_A_STEP)
    lent = lent_work(view, wanted, context.settings)
    chosen = _best(context, rejection, wanted, lent.work, lent.ending)
    is_now = chosen is not None
    if chosen is None and lent.later:
        chosen = _best(context, rejection, wanted, lent.later, lent.ending)
    if chosen is None:
        return told(rejection, why_not(lent, wanted, view.teams.free))
    what = f"pod on node {chosen.node_name}"
    text = found_text(what, chosen.work) if is_now else later_text(what, chosen.work)
    return Preemption(
        pod=pod,
        diagnosis=told(rejection, text).diagnosis,
        node_name=rejection.node_name,
        nominated_node=chosen.node_name,
        victims=victims_of(chosen.work) if is_now else (),
        devices=chosen.devices,
        unhelpful=rejection.unhelpful,
        is_reclaim=True,
    )


def why_not(lent: Lent, wanted: Wanted, free: GpuAmount) -> str:
    """Why nothing is taken back, with numbers."""
    causes = ", ".join(f"{count} {cause}" for cause, count in sorted(lent.spared.items()))
    spared = f"; of the pods of teams above their guarantee may not end: {causes}" if causes else ""
    if wanted.amount.fits_in(free.plus(lent.amount)):
        return (
            f"fragmented: {wanted.amount} are asked for, {free} are free and {lent.amount} may be"
            f" taken back, and not in one place{spared}."
        )
    return (
        f"{wanted.amount} are asked for, {free} are free and no more than {lent.amount} may be"
        f" taken back{spared}."
    )


def found_text(what: str, work: Sequence[LentWork]) -> str:
    """What is taken back, and from whom."""
    victims, teams = victims_of(work), sorted({one.team.name for one in work})
    if not victims:
        return f"found a potential placement for {what}, where enough pods end already"
    amount = total(one.amount for one in work)
    return (
        f"found a potential placement for {what}, taking back {amount} of {len(victims)} pods from"
        f" team{'s' * (len(teams) > 1)} {', '.join(teams)}"
    )


def later_text(what: str, work: Sequence[LentWork]) -> str:
    """Work that is too young to be taken back: its place is kept until then."""
    amount = total(one.amount for one in work)
    return (
        f"found a potential placement for {what}, once {amount} may be taken back there: some pods"
        " are younger than the minimum run time"
    )


def victims_of(work: Iterable[LentWork]) -> tuple[Pod, ...]:
    """The pods of this work."""
    return tuple(pod for one in work for pod in one.pods)


def is_too_much(work: Sequence[LentWork], wanted: Wanted) -> bool:
    """Whether more is released than what is asked for and one group: that is defragmentation."""
    largest = max((one.amount for one in work), key=lambda one: one.slices, default=NOTHING)
    return total(one.amount for one in work).slices > wanted.amount.slices + largest.slices


def told(rejection: Rejection, text: str) -> Rejection:
    """The rejection with what came of the reclaim."""
    diagnosis = rejection.diagnosis.with_post_filter(PREFIX + text)
    return msgspec.structs.replace(rejection, diagnosis=diagnosis)


def asking(rejection: Rejection, team: Team) -> Rejection:
    """The rejection of a pod that is decided again when its team uses less or may use more."""
    diagnosis = rejection.diagnosis.with_team(team.name)
    return msgspec.structs.replace(rejection, diagnosis=diagnosis)


def _may_ask(context: PostFilterContext, rejection: Rejection) -> bool:
    pod, preemptions = rejection.pod, context.view.preemptions
    return not (
        isinstance(rejection, Preemption)
        or not pod.gpu_requests
        or is_out_of_question(context)
        or pod.never_preempts
        or pod.uid in preemptions.running
        or preemptions.is_exhausted(pod.uid)
    )


def _best(
    context: PostFilterContext,
    rejection: Rejection,
    wanted: Wanted,
    work: Sequence[LentWork],
    ending: Sequence[Pod],
) -> _Plan | None:
    """The plan that releases least; of equal ones that of the work that comes first."""
    ranks = {id(one): at for at, one in enumerate(work)}

    def cost(plan: _Plan) -> tuple[object, ...]:
        released = plan.released
        last = sorted((ranks[id(one)] for one in plan.work), reverse=True)
        return released.slices, released.mib, last, plan.node_name

    return min(_plans(context, rejection, wanted, work, ending), key=cost, default=None)


def _plans(
    context: PostFilterContext,
    rejection: Rejection,
    wanted: Wanted,
    work: Sequence[LentWork],
    gone: Sequence[Pod],
) -> list[_Plan]:
    nodes = rejection.diagnosis.nodes
    by_node: dict[str, list[LentWork]] = {}
    for one in work:
        for name in dict.fromkeys(pod.node_name for pod in one.pods):
            by_node.setdefault(name, []).append(one)
    ending: dict[str, list[Pod]] = {}
    for pod in gone:
        ending.setdefault(pod.node_name, []).append(pod)
    found: list[_Plan] = []
    for name in dict.fromkeys((*by_node, *ending)):
        is_possible = (
            name in rejection.candidates
            if rejection.candidates
            else is_resolvable(nodes.get(name, ()))
        )
        view = context.view
        if not is_possible or view.at(name) is None or has_claims(view, rejection.pod, name):
            continue
        here = wanted.of(view.teams.asked(rejection.pod, view.teams.kind_at(name)))
        if not here.is_inside(view.teams):
            continue
        plan = _on_node(context, name, ending.get(name, ()), by_node.get(name, ()), here)
        if plan is not None:
            found.append(plan)
        if context.work.is_over or len(found) >= PLANS_MAX:
            break
    return found


def _on_node(
    context: PostFilterContext,
    name: str,
    ending: Iterable[Pod],
    work: Iterable[LentWork],
    wanted: Wanted,
) -> _Plan | None:
    """The work that has to end for the pod on one node; None if that does not help."""
    trial = context.trial(name)
    for pod in ending:
        trial.remove(pod.uid)
    chosen: list[LentWork] = []
    reasons = trial.reasons()
    for one in work:
        if reasons == FITS or reasons is None:
            break
        _remove(trial, one, name)
        chosen.append(one)
        reasons = trial.reasons()
    # The last one is needed; of the others those stay that can, the last choice first.
    for one in chosen[-2::-1] if reasons == FITS else ():
        _put_back(trial, one, name)
        reasons = trial.reasons()
        if reasons == FITS:
            chosen.remove(one)
        else:
            _remove(trial, one, name)
            reasons = trial.reasons()
    if reasons != FITS or is_too_much(chosen, wanted):
        return None
    reserved = trial.reserve()
    return None if isinstance(reserved, Refuse) else _Plan(name, tuple(chosen), reserved.devices)


def _remove(trial: Trial, work: LentWork, node_name: str) -> None:
    for pod in work.pods:
        if pod.node_name == node_name:
            trial.remove(pod.uid)


def _put_back(trial: Trial, work: LentWork, node_name: str) -> None:
    for pod in work.pods:
        if pod.node_name == node_name:
            trial.put_back(pod.uid)
