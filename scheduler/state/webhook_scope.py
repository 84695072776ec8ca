"""The pods for which our webhook is called, as its registration selects them.

On any other pod an annotation of the webhook was written by the pod's author.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.node import Namespace
from scheduler.model.pods.pod import Pod

#: The API server never calls our webhook for pods in this namespace.
SYSTEM_NAMESPACE: Final = "kube-system"


class WebhookScope(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that selects the pods; ``scope`` is ``fallback.scope``."""

    scheduler_name: str = well_known.SCHEDULER_NAME
    own_namespace: str = ""
    scope: str = "ours"

    def is_asked_about(self, namespace: Namespace) -> bool:
        """Whether the webhook is called for pods of a namespace at all."""
        if namespace.name in (SYSTEM_NAMESPACE, self.own_namespace):
            return False
        return namespace.labels.get(well_known.WEBHOOK_OPT_OUT) != "disabled"

    def covers(self, pod: Pod, namespace: Namespace) -> bool:
        """Whether the webhook was called for a pod, if it served when the pod was created."""
        if not self.is_asked_about(namespace):
            return False
        is_enabled = namespace.labels.get(well_known.FALLBACK_NAMESPACE) == "enabled"
        return pod.scheduler_name == self.scheduler_name or self.scope == "all" or is_enabled
