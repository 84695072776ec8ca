"""TeamQuota: whether the team of a pod may use what the pod asks for.

A team may use up to its limit. Above its guarantee it borrows: only with pods that can be taken
back. Members of a group are asked beside those that are planned already, so a group is checked as a
whole before any Binding. Pods that Kueue started were admitted by Kueue's quota and are not asked.
"""

from __future__ import annotations

from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.decision import Placement
from scheduler.framework.plugin import FITS, BoundFilter, Plugin, Reasons, Refuse, ReserveContext
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.model.teams.amount import NOTHING, GpuAmount, GpuKind
from scheduler.model.teams.team import Team
from scheduler.plugins.teams import quota
from scheduler.state.node_info import NodeInfo
from scheduler.state.teams.books import TeamBooks, total
from scheduler.state.teams.devices import plan_amount

QUOTA_EXCEEDED: Final = ReasonCode(
    name="QUOTA_EXCEEDED",
    meaning="the pod's team would use more than its quota allows",
    lifted_by=(RequeueCause.TEAM, RequeueCause.NAMESPACE),
    stage="TeamQuota",
    next_step=(
        "wait until pods of the team end, or ask an administrator for a higher limit; a pod with"
        ' gpu-scheduler.io/reclaimable: "false" runs only inside the guarantee'
    ),
    words=(r"quota of team ",),
    condition=ConditionReason.QUOTA_EXCEEDED,
    is_for_class=True,
)


def pre_filter(view: View, pod: Pod, settings: Settings) -> Refuse | BoundFilter | None:
    """Refuse the pod if its team may not use as much on any node; on a node with larger GPUs than
    others a filter decides.
    """
    teams = view.teams
    if teams.table is None or not pod.gpu_requests:
        return None
    team = _limited(teams, pod)
    if team is None:
        return None
    asked = {kind: teams.asked(pod, kind) for kind in teams.kinds}
    texts = {kind: quota.refusal(teams, team, pod, one) for kind, one in asked.items()}
    if not any(texts.values()):
        return None
    if all(texts.values()):
        least = min(asked, key=lambda kind: (asked[kind].slices, asked[kind].mib))
        return Refuse(_reason(team, texts[least]))
    return BoundFilter(lambda node_info: _at(teams, team, texts, node_info))


def reserve(context: ReserveContext, placement: Placement) -> Placement | Refuse:
    """Refuse devices that only the placement knows: those of claims, and those of a map."""
    teams, pod = context.view.teams, placement.pod
    if teams.table is None or (placement.claims is None and pod.map_text is None):
        return placement
    team = _limited(teams, pod)
    if team is None:
        return placement
    text = quota.refusal(teams, team, pod, _granted(context, placement))
    return Refuse(_reason(team, text)) if text else placement


def _limited(teams: TeamBooks, pod: Pod) -> Team | None:
    """The team whose quota is asked about a pod."""
    assert teams.table is not None, "there are no teams"
    if teams.table.kueue and pod.is_of_kueue:
        return None
    return teams.team_of(pod.namespace)


def _at(teams: TeamBooks, team: Team, texts: dict[GpuKind, str], node_info: NodeInfo) -> Reasons:
    assert node_info.node is not None
    text = texts.get(teams.kind_at(node_info.node.name), "")
    return (_reason(team, text),) if text else FITS


def _granted(context: ReserveContext, placement: Placement) -> GpuAmount:
    """What the placement gives the pod."""
    node_info, pod = context.node_info, placement.pod
    assert node_info.node is not None
    kind = context.view.teams.kind_at(node_info.node.name)
    served = node_info.is_served_by_dra
    requests = pod.gpu_requests.items()
    found = total(kind.of(one, count) for one, count in requests if not served(one))
    if not pod.gpu_requests:
        found = kind.whole.times(len(placement.devices.numbers))
    if placement.claims is not None:
        found = found.plus(plan_amount(context.view.dra, placement.claims))
    return found or NOTHING


def _reason(team: Team, text: str) -> Reason:
    return Reason(code=QUOTA_EXCEEDED, text=text, resource=team.name, resolvable=False)


PLUGIN: Final = Plugin(
    name="TeamQuota",
    reads=(pod_reads.REQUESTS, pod_reads.QUOTA),
    codes=(QUOTA_EXCEEDED,),
    pre_filter=pre_filter,
    reserve=reserve,
)
