"""Which pods on a node a preemptor may preempt, and why it may not preempt the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.state.gangs.victims import others_of

PRIORITY: Final = "equal or higher priority"
FOREIGN: Final = "another scheduler's pod (preemption.victims is own)"
UNREAD: Final = "the pod cannot be read"
GROUP: Final = "a pod of its group may not be preempted"
OWN_GROUP: Final = "a pod of the same group"


def possible_victims(
    view: View, preemptor: Pod, node_name: str, settings: Settings
) -> Iterator[Pod]:
    """The pods on a node that are less important than the preemptor and may be preempted."""
    node_info = view.at(node_name)
    for pod, _ in node_info.pods.values() if node_info is not None else ():
        if not spared_because(pod, preemptor, settings) and not (
            pod.group and spared_with_group(view, pod, preemptor, settings)
        ):
            yield pod


def spared_because(pod: Pod, preemptor: Pod, settings: Settings) -> str:
    """Why a pod may not be preempted; empty if it may.

    A pod that cannot be read may have another priority than what was read of it.
    """
    if pod.priority >= preemptor.priority:
        return PRIORITY
    if pod.unread:
        return UNREAD
    is_ours = pod.scheduler_name == settings.scheduler_name
    return "" if is_ours or settings.preemption == "all" else FOREIGN


def spared_with_group(view: View, pod: Pod, preemptor: Pod, settings: Settings) -> str:
    """Why a member of a gang may not be preempted although it may for itself; empty if it may.

    A gang that falls below its minimum ends as a whole.
    """
    gang = view.gangs.of(pod)
    if gang is None:
        return ""
    if preemptor.group and view.gangs.key_of(preemptor) == gang.key:
        return OWN_GROUP
    others = others_of(gang, pod.uid)
    return GROUP if any(spared_because(one, preemptor, settings) for one in others) else ""
