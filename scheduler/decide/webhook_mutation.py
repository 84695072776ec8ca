"""Pods that came past the webhook: they are not bound blind (design 5.15).

Where a webhook is expected, a pod whose containers were told nothing about their devices was
created while it was away. Bound as it is, it would see every GPU of its node. So it waits; pods of
ReplicaSets and StatefulSets are replaced (``state/breakers/recreate_budget``,
``bind/pod_recreator``), for all others the reason holds the command to run."""

from __future__ import annotations

from scheduler.decide.gpu_map import cuda_mode
from scheduler.decide.view import Profile, View
from scheduler.model import well_known
from scheduler.model.cuda_env import CudaMode
from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.state.breakers.recreate_budget import TRIES_MAX, is_replaceable


def is_untold(pod: Pod, value: str | None) -> bool:
    """Whether the pod wants to be told this value of CUDA_VISIBLE_DEVICES, and was not.

    A value of its author's counts as told.
    """
    if value is None or cuda_mode(pod) is CudaMode.NONE:
        return False
    return all(c.cuda_literal is None and c.cuda_key is None for c in pod.containers)


def is_unmutated(pod: Pod, value: str | None, profile: Profile, view: View) -> bool:
    """Whether the pod was not told because it came past a webhook that should have told it."""
    return (
        profile.expects_webhook
        and is_untold(pod, value)
        and _is_asked_about(pod.namespace, profile, view)
    )


def reason(pod: Pod) -> Reason:
    """Why such a pod waits, and what ends it."""
    return _not_mutated(pod, f"{well_known.CUDA_ENV} is not set")


def without_request(pod: Pod) -> Reason:
    """Why a pod waits whose wish for GPU memory was not made a request: it would get none."""
    return _not_mutated(pod, f"{well_known.WANTED_MEMORY} was not made a request")


def _not_mutated(pod: Pod, what: str) -> Reason:
    remedy = f"recreate it: {command(pod)}"
    if is_replaceable(pod):
        remedy = (
            "it is replaced once the webhook has answered for a while (at most"
            f" {TRIES_MAX} tries per owner) or by hand: {command(pod)}"
        )
    return Reason(
        code=ReasonCode.NOT_MUTATED,
        text=f"NotMutated: {what} because the pod was created without the webhook; {remedy}",
        resolvable=False,
    )


def command(pod: Pod) -> str:
    """What creates the pod again: its controller, or for a bare pod its own manifest."""
    if pod.owner is not None:
        return f"kubectl -n {pod.namespace} delete pod {pod.name}"
    return f"kubectl -n {pod.namespace} get pod {pod.name} -o yaml | kubectl replace --force -f -"


def _is_asked_about(namespace: str, profile: Profile, view: View) -> bool:
    """Whether the API server asks the webhook about pods in this namespace at all."""
    return profile.reach.is_asked_about(view.namespace(namespace))
