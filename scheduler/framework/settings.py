"""The settings of all decisions, created once from the configuration."""

from __future__ import annotations

from typing import Literal

import msgspec

from scheduler.model.limits import DECISION_STEPS_MAX
from scheduler.model.pods.pod import Pod
from scheduler.state.webhook_scope import WebhookScope


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that decisions read.

    With ``expects_webhook`` a mapped pod that the webhook did not mutate is not bound; the webhook
    is never called for pods in ``own_namespace``. ``fallback_scope`` and ``non_gpu`` are the
    configuration's. With ``default_spread`` kube-scheduler's system default constraints count for
    pods without GPUs. With ``compare_numbers`` the toleration operators Lt and Gt are supported.
    ``decision_steps_max`` is the step limit of one decision or admission (``framework/budget``).
    ``preemption`` selects the pods that may be preempted: none, the scheduler's own, or those of
    every scheduler. With ``restores`` a pod with a smaller tier is replaced when the tier that it
    requested is free. ``topology_levels`` are keys of node labels, far first; empty: they are
    detected (``state/topology/levels``).
    """

    scheduler_name: str = "gpu-scheduler"
    placement: str = "pack"
    non_gpu: str = "balanced"
    maps_allow: str = "labelled"
    expects_webhook: bool = False
    own_namespace: str = ""
    fallback_scope: str = "ours"
    compare_numbers: bool = False
    default_spread: bool = False
    decision_steps_max: int = DECISION_STEPS_MAX
    restores: bool = True
    preemption: Literal["off", "own", "all"] = "off"
    topology_levels: tuple[str, ...] = ()

    @property
    def spreads(self) -> bool:
        """Whether the score prefers the emptiest node instead of the fullest."""
        return self.placement == "spread"

    def is_balanced(self, pod: Pod) -> bool:
        """Whether kube-scheduler's scores choose the pod's node: it requests no GPU."""
        return self.non_gpu == "balanced" and not pod.gpu_requests

    @property
    def reach(self) -> WebhookScope:
        """The pods for which the webhook is called."""
        return WebhookScope(
            scheduler_name=self.scheduler_name,
            own_namespace=self.own_namespace,
            scope=self.fallback_scope,
        )
