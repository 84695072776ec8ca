"""One decision: a view of the cluster and a pod in, a Decision out. No I/O, no clock, no chance.

Every shell calls this one function: the loop, the webhook's answers, the simulator, replay
and the benchmarks.
"""

from __future__ import annotations

from scheduler.decide import best_fit, gpu_map, gpu_map_choice, webhook_mutation
from scheduler.decide.budget import Budget
from scheduler.decide.decision import Decision, Placement, Rejection
from scheduler.decide.impossible_request import impossible_in_cluster, impossible_on_node
from scheduler.decide.mig import instance_plan
from scheduler.decide.placement_notes import soft_notes
from scheduler.decide.view import Profile, View, beside_nominated
from scheduler.model import well_known
from scheduler.model.pod import Pod
from scheduler.model.reason import Diagnosis, Never, Reason, ReasonCode
from scheduler.state.node_info import NodeInfo

NO_NODES = Reason(
    code=ReasonCode.NO_NODES, text="no nodes available to schedule pods", resolvable=False
)


def decide(view: View, pod: Pod, profile: Profile, work: Budget | None = None) -> Decision:
    """Where the pod goes, or why it cannot go anywhere; the steps are counted in ``work``."""
    work = work or Budget(profile.decision_steps_max)
    view = beside_nominated(view, pod)
    general = _general_problem(pod)
    if general is not None:
        return _rejected_everywhere(view, pod, general)
    if pod.map_text is not None:
        return _decide_mapped(view, pod, profile, work)
    return _decide_packed(view, pod, profile, work)


def place(view: View, pod: Pod, profile: Profile, work: Budget | None = None) -> Placement | None:
    """The same where nobody asks why not: a "no" costs no explanation."""
    work = work or Budget(profile.decision_steps_max)
    view = beside_nominated(view, pod)
    if _general_problem(pod) is not None:
        return None
    if pod.map_text is not None:
        decision = _decide_mapped(view, pod, profile, work)
        return decision if isinstance(decision, Placement) else None
    if view.verdicts.seems_hopeless(pod.kind) and best_fit.is_hopeless(view, pod):
        return None
    node_info = best_fit.find(view, pod, work, spread=profile.placement == "spread")
    return None if node_info is None else _packed_placement(pod, node_info)


def _general_problem(pod: Pod) -> Reason | None:
    if pod.problem:
        text = f"unreadable: {pod.problem}"
        return Reason(code=ReasonCode.UNREADABLE, text=text, resolvable=False)
    if pod.unsupported:
        fields = " and ".join(pod.unsupported)
        return Reason(
            code=ReasonCode.UNSUPPORTED,
            text=f"unsupported: {fields} (gpu-scheduler does not implement this yet)",
            resolvable=False,
        )
    if served := sorted(r for r in pod.requests if r.startswith(well_known.DRA_PREFIX)):
        return Reason(
            code=ReasonCode.UNSUPPORTED,
            text=f"unsupported: {served[0][:100]} (gpu-scheduler does not allocate DRA devices"
            " yet)",
            resolvable=False,
        )
    if pod.lacks_request:
        return webhook_mutation.without_request(pod)
    given = pod.map_text is not None or pod.requests.get(well_known.GPU, 0) > 0
    unread = pod.reads_devices - (gpu_map.keys_offered(pod) if given else frozenset())
    if unread:
        return Reason(
            code=ReasonCode.NO_VALUE_FOR_ENV,
            text=f"a container reads its devices from the annotation {min(unread)[:80]},"
            " which would stay empty",
            resolvable=False,
        )
    return None


def _rejected_everywhere(
    view: View, pod: Pod, reason: Reason, behind: tuple[Reason, ...] = ()
) -> Rejection:
    diagnosis = Diagnosis(total=len(view.nodes), general=reason, behind=behind)
    return Rejection(pod=pod, diagnosis=diagnosis)


def _decide_mapped(view: View, pod: Pod, profile: Profile, work: Budget) -> Decision:
    found = gpu_map_choice.choose(view, pod, profile, work)
    match found:
        case gpu_map_choice.RefusedLine(general=Reason() as reason, behind=behind):
            return _rejected_everywhere(view, pod, reason, behind)
        case gpu_map_choice.RefusedLine(node_name=node_name, reasons=reasons):
            elsewhere = view.verdicts.of(gpu_map.NOT_NAMED, lambda _: (gpu_map.NOT_NAMED,))
            diagnosis = elsewhere.diagnosis({node_name: reasons})
            place = view.at(node_name)
            assert place is not None
            assert place.node is not None
            return _rejected(pod, diagnosis, impossible_on_node(pod, place.node), node_name)
        case Placement():
            return found
    return _too_complex(view, pod, work, pod.label_steps + pod.node_steps)


def _rejected(
    pod: Pod, diagnosis: Diagnosis | None, never: Never | None, node_name: str = ""
) -> Rejection:
    assert diagnosis is not None, f"the index missed a node for {pod.key}"
    if never is not None:
        diagnosis = diagnosis.with_never(never)
    return Rejection(pod=pod, diagnosis=diagnosis, node_name=node_name)


def _decide_packed(view: View, pod: Pod, profile: Profile, work: Budget) -> Decision:
    if not len(view.nodes):
        return _rejected_everywhere(view, pod, NO_NODES)
    before = work.spent
    # Whoever was refused a moment ago is probably refused again, and few nodes changed since.
    if view.verdicts.seems_hopeless(pod.kind):
        rejection = _explained(view, pod, work, before)
        if rejection is not None:
            return rejection
    node_info = best_fit.find(view, pod, work, spread=profile.placement == "spread")
    if node_info is not None:
        return _packed_placement(pod, node_info)
    # Else it is not known, or there is a node and no steps were left to find it.
    rejection = _explained(view, pod, work, before)
    return rejection or _too_complex(
        view, pod, work, best_fit.steps_of_diagnosis(view, pod, work.limit)
    )


def _explained(view: View, pod: Pod, work: Budget, before: int) -> Rejection | None:
    """Why every node says no; None where one does not, or where to ask them all is too much.

    It is measured by what was spent ``before`` the decision, so that the answer is the same
    whether nodes were looked at since, or a look was spared by what is remembered.
    """
    steps = best_fit.steps_of_diagnosis(view, pod, work.limit)
    diagnosis = best_fit.diagnosis(view, pod) if before + steps <= work.limit else None
    if diagnosis is None:
        return None
    work.spend(steps)
    return _rejected(pod, diagnosis, impossible_in_cluster(pod, view.nodes.offers))


def _too_complex(view: View, pod: Pod, work: Budget, steps: int) -> Rejection:
    """What was counted and what is allowed; the same whatever is remembered."""
    counted = str(steps) if steps > work.limit else f"more than {work.limit}"
    reason = Reason(
        code=ReasonCode.TOO_COMPLEX,
        text=f"TooComplex: to compare the pod's selectors, tolerations and requests with"
        f" {len(view.nodes)} nodes takes {counted} steps and one decision may take {work.limit};"
        " name fewer labels and values or ask for fewer MIG instances in one pod",
        resolvable=False,
    )
    return _rejected_everywhere(view, pod, reason)


def _packed_placement(pod: Pod, node_info: NodeInfo) -> Placement:
    assert node_info.node is not None
    devices = best_fit.devices(pod, node_info)
    value, shares = gpu_map.environment(pod, devices)
    placement = Placement(
        pod=pod,
        node_name=node_info.node.name,
        devices=devices,
        cuda_visible_devices=value,
        shares=shares,
        notes=soft_notes(pod),
    )
    return instance_plan.carved(placement, node_info)
