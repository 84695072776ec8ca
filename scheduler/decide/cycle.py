"""One decision: a view of the cluster and a pod in, a Decision out. No I/O, no clock, no chance.

Every shell calls this one function: the loop, the webhook's answers, the simulator, replay
and the benchmarks.
"""

from __future__ import annotations

from scheduler.decide import cutting, mapped, packed, repair
from scheduler.decide.decision import Decision, Placement, Rejection
from scheduler.decide.filters import first_rejection
from scheduler.decide.filters.devices import NOTHING_TO_READ
from scheduler.decide.never import never_here, never_there
from scheduler.decide.view import Profile, View, beside_nominated
from scheduler.decide.work import Work
from scheduler.model import names
from scheduler.model.device import Devices, join_numbers
from scheduler.model.pod import Pod
from scheduler.model.reason import Code, Diagnosis, Never, Reason
from scheduler.model.shares import CudaMode
from scheduler.state.ledger import NodeBooks

NO_NODES = Reason(code=Code.NO_NODES, text="no nodes available to schedule pods", resolvable=False)


def decide(view: View, pod: Pod, profile: Profile, work: Work | None = None) -> Decision:
    """Where the pod goes, or why it cannot go anywhere; the steps are counted in ``work``."""
    work = work or Work(profile.decision_steps_max)
    view = beside_nominated(view, pod)
    general = _general_problem(pod)
    if general is not None:
        return _rejected_everywhere(view, pod, general)
    if pod.map_text is not None:
        return _decide_mapped(view, pod, profile, work)
    return _decide_packed(view, pod, profile, work)


def place(view: View, pod: Pod, profile: Profile, work: Work | None = None) -> Placement | None:
    """The same where nobody asks why not: a "no" costs no explanation."""
    work = work or Work(profile.decision_steps_max)
    view = beside_nominated(view, pod)
    if _general_problem(pod) is not None:
        return None
    if pod.map_text is not None:
        decision = _decide_mapped(view, pod, profile, work)
        return decision if isinstance(decision, Placement) else None
    if view.verdicts.seems_hopeless(pod.kind) and packed.is_hopeless(view, pod):
        return None
    books = packed.find(view, pod, work, spread=profile.placement == "spread")
    return None if books is None else _packed_placement(pod, books)


def _general_problem(pod: Pod) -> Reason | None:
    if pod.problem:
        text = f"unreadable: {pod.problem}"
        return Reason(code=Code.UNREADABLE, text=text, resolvable=False)
    if pod.unsupported:
        fields = " and ".join(pod.unsupported)
        return Reason(
            code=Code.UNSUPPORTED,
            text=f"unsupported: {fields} (gpu-scheduler does not implement this yet)",
            resolvable=False,
        )
    if served := sorted(r for r in pod.requests if r.startswith(names.DRA_PREFIX)):
        return Reason(
            code=Code.UNSUPPORTED,
            text=f"unsupported: {served[0][:100]} (gpu-scheduler does not allocate DRA devices"
            " yet)",
            resolvable=False,
        )
    if pod.lacks_request:
        return repair.without_request(pod)
    given = pod.map_text is not None or pod.requests.get(names.GPU, 0) > 0
    unread = pod.reads_devices - (mapped.keys_offered(pod) if given else frozenset())
    if unread:
        return Reason(
            code=Code.NO_VALUE_FOR_ENV,
            text=f"a container reads its devices from the annotation {min(unread)[:80]},"
            " which would stay empty",
            resolvable=False,
        )
    return None


def _rejected_everywhere(view: View, pod: Pod, reason: Reason) -> Rejection:
    return Rejection(pod=pod, diagnosis=Diagnosis(total=len(view.nodes), general=reason))


def _decide_mapped(view: View, pod: Pod, profile: Profile, work: Work) -> Decision:
    if not work.spend(steps := pod.label_steps + pod.node_steps):
        return _too_complex(view, pod, work, steps)
    found = mapped.target(pod, view, profile)
    if isinstance(found, Reason):
        return _rejected_everywhere(view, pod, found)
    place = view.at(found.node_name)
    assert place is not None, f"{found.node_name} was resolved and does not exist"
    changed = mapped.literal_problem(pod, found.entry, place)
    if changed is not None:
        return _rejected_everywhere(view, pod, changed)
    reasons = first_rejection(pod, place)
    if not reasons:
        problem = mapped.device_problem(pod, found.entry, place)
        reasons = () if problem is None else (problem,)
    if not reasons:
        placement = _mapped_placement(pod, found, place)
        if isinstance(placement, Placement):
            if repair.is_unmutated(pod, placement.cuda_visible_devices, profile, view):
                return _rejected_everywhere(view, pod, repair.reason(pod))
            return placement
        reasons = (placement,)
    elsewhere = view.verdicts.of(mapped.NOT_NAMED, lambda _: (mapped.NOT_NAMED,))
    assert place.node is not None
    never = never_there(pod, place.node)
    diagnosis = elsewhere.diagnosis({found.node_name: reasons})
    return _rejected(pod, diagnosis, never, found.node_name)


def _rejected(
    pod: Pod, diagnosis: Diagnosis | None, never: Never | None, node_name: str = ""
) -> Rejection:
    assert diagnosis is not None, f"the index missed a node for {pod.key}"
    if never is not None:
        diagnosis = diagnosis.with_never(never)
    return Rejection(pod=pod, diagnosis=diagnosis, node_name=node_name)


def _mapped_placement(pod: Pod, found: mapped.Target, books: NodeBooks) -> Placement | Reason:
    devices = cutting.positioned(pod, books, mapped.assignment(pod, found.entry, books))
    value, shares = mapped.environment(pod, devices, found.entry)
    if pod.reads_devices and value is None:
        return NOTHING_TO_READ
    placement = Placement(
        pod=pod,
        node_name=found.node_name,
        devices=devices,
        index=found.entry.index,
        cuda_visible_devices=value,
        shares=shares,
        notes=_map_notes(pod, devices, value, books) + _soft_notes(pod),
    )
    return cutting.carved(placement, books)


def _decide_packed(view: View, pod: Pod, profile: Profile, work: Work) -> Decision:
    if not len(view.nodes):
        return _rejected_everywhere(view, pod, NO_NODES)
    before = work.spent
    # Whoever was refused a moment ago is probably refused again, and few nodes changed since.
    if view.verdicts.seems_hopeless(pod.kind):
        rejection = _explained(view, pod, work, before)
        if rejection is not None:
            return rejection
    books = packed.find(view, pod, work, spread=profile.placement == "spread")
    if books is not None:
        return _packed_placement(pod, books)
    # Else it is not known, or there is a node and no steps were left to find it.
    rejection = _explained(view, pod, work, before)
    return rejection or _too_complex(
        view, pod, work, packed.steps_of_diagnosis(view, pod, work.limit)
    )


def _explained(view: View, pod: Pod, work: Work, before: int) -> Rejection | None:
    """Why every node says no; None where one does not, or where to ask them all is too much.

    It is measured by what was spent ``before`` the decision, so that the answer is the same
    whether nodes were looked at since, or a look was spared by what is remembered.
    """
    steps = packed.steps_of_diagnosis(view, pod, work.limit)
    diagnosis = packed.diagnosis(view, pod) if before + steps <= work.limit else None
    if diagnosis is None:
        return None
    work.spend(steps)
    return _rejected(pod, diagnosis, never_here(pod, view.nodes.offers))


def _too_complex(view: View, pod: Pod, work: Work, steps: int) -> Rejection:
    """What was counted and what is allowed; the same whatever is remembered."""
    counted = str(steps) if steps > work.limit else f"more than {work.limit}"
    reason = Reason(
        code=Code.TOO_COMPLEX,
        text=f"TooComplex: to compare the pod's selectors, tolerations and requests with"
        f" {len(view.nodes)} nodes takes {counted} steps and one decision may take {work.limit};"
        " name fewer labels and values or ask for fewer MIG instances in one pod",
        resolvable=False,
    )
    return _rejected_everywhere(view, pod, reason)


def _packed_placement(pod: Pod, books: NodeBooks) -> Placement:
    assert books.node is not None
    devices = packed.devices(pod, books)
    value, shares = mapped.environment(pod, devices)
    placement = Placement(
        pod=pod,
        node_name=books.node.name,
        devices=devices,
        cuda_visible_devices=value,
        shares=shares,
        notes=_soft_notes(pod),
    )
    return cutting.carved(placement, books)


def _map_notes(
    pod: Pod, devices: Devices, value: str | None, books: NodeBooks
) -> tuple[tuple[str, str], ...]:
    if not devices.numbers:
        text = "gpu-scheduling-map chose the node; which GPU is the kubelet's choice there"
        return (("MapHonouredNodeOnly", text), *_index_notes(pod, value))
    notes: tuple[tuple[str, str], ...] = ()
    assert books.node is not None
    if not pod.gpu_requests and not books.node.is_numbered:
        text = (
            f"no container requests a GPU, so {books.node.name} gives the pod none: its containers"
            f" see GPUs {join_numbers(devices.numbers)} only where the runtime shows all GPUs"
            " (NVIDIA's runtime is the default and NVIDIA_VISIBLE_DEVICES is set), and no GPU where"
            " the device plugin uses CDI"
        )
        notes = (("MapWithoutRequest", text),)
    if repair.is_untold(pod, value):
        text = f"CUDA_VISIBLE_DEVICES={value} was not set: the pod did not pass the webhook"
        notes += (("EnvironmentNotSet", text),)
    return notes


def _index_notes(pod: Pod, value: str | None) -> tuple[tuple[str, str], ...]:
    """The map's numbers, told to a container that counts the kubelet's GPUs from 0."""
    if value is None or mapped.cuda_mode(pod) is not CudaMode.INDEX:
        return ()
    return (
        (
            "EnvironmentMayHideGpus",
            f"{names.CUDA_MODE}: index sets CUDA_VISIBLE_DEVICES={value[:80]} although the kubelet"
            " picks the GPUs here and a container counts its own from 0; write local, or leave the"
            " annotation out",
        ),
    )


def _soft_notes(pod: Pod) -> tuple[tuple[str, str], ...]:
    if not pod.soft:
        return ()
    return (("PreferenceIgnored", f"not considered: {' and '.join(pod.soft)}"),)
