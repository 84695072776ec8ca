"""Pods that the webhook did not mutate are not bound (design 5.15).

If a webhook is expected, a pod without a device environment was created while the webhook was
unavailable. After a Binding its containers would see every GPU of the node. So the pod stays
pending. Pods of ReplicaSets and StatefulSets are recreated (``state/breakers/recreate_budget``,
``bind/pod_recreator``); for all others the reason has the command to run.
"""

from __future__ import annotations

from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.decision import Placement
from scheduler.framework.plugin import Plugin, Refuse, ReserveContext
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.gpu.cuda_env import lacks_environment
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.state.breakers.recreate_budget import TRIES_MAX, is_replaceable

NOT_MUTATED = ReasonCode(
    name="NOT_MUTATED",
    meaning=(
        "the pod was created without the webhook, so CUDA_VISIBLE_DEVICES or the GPU"
        " request is missing"
    ),
    lifted_by=(RequeueCause.ADMISSION,),
    stage="GPUMap",
    next_step=(
        "no action for pods of ReplicaSets and StatefulSets once the webhook answers; for"
        " others run the command in the message"
    ),
    words=(r"NotMutated: ",),
    condition=ConditionReason.NOT_MUTATED,
)


def pre_filter(_view: View, pod: Pod, _settings: Settings) -> Refuse | None:
    """Reject a pod whose GPU memory was not converted to a request: it would get no GPU."""
    if not pod.lacks_request:
        return None
    return Refuse(_not_mutated(pod, f"{well_known.WANTED_MEMORY} was not converted to a request"))


def pre_bind(context: ReserveContext, placement: Placement) -> Refuse | None:
    """Reject a mapped pod without a device environment although the webhook is responsible for
    it.
    """
    pod, settings = placement.pod, context.settings
    if (
        context.entry is None
        or not settings.expects_webhook
        or not lacks_environment(pod, placement.cuda_visible_devices)
        or not settings.reach.is_asked_about(context.view.namespace(pod.namespace))
    ):
        return None
    return Refuse(_not_mutated(pod, f"{well_known.CUDA_ENV} is not set"))


def _not_mutated(pod: Pod, what: str) -> Reason:
    remedy = f"recreate it: {command(pod)}"
    if is_replaceable(pod):
        remedy = (
            "it is recreated once the webhook has answered for a while (at most"
            f" {TRIES_MAX} tries per owner) or by hand: {command(pod)}"
        )
    return Reason(
        code=NOT_MUTATED,
        text=f"NotMutated: {what} because the pod was created without the webhook; {remedy}",
        resolvable=False,
    )


def command(pod: Pod) -> str:
    """The command that recreates the pod: deletion if it has a controller, else its own
    manifest.
    """
    if pod.owner is not None:
        return f"kubectl -n {pod.namespace} delete pod {pod.name}"
    return f"kubectl -n {pod.namespace} get pod {pod.name} -o yaml | kubectl replace --force -f -"


PLUGIN: Final = Plugin(
    name="WebhookMutation",
    skips_plain=True,
    reads=(pod_reads.DEVICES_READ, pod_reads.MAP),
    codes=(NOT_MUTATED,),
    pre_filter=pre_filter,
    pre_bind=pre_bind,
)
