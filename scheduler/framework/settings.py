"""How this scheduler decides: made from the configuration once."""

from __future__ import annotations

import msgspec

from scheduler.model.limits import DECISION_STEPS_MAX
from scheduler.state.webhook_scope import WebhookScope


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that decisions read.

    With ``expects_webhook`` a mapped pod that the webhook did not mutate is not bound; the webhook
    is never asked about pods in ``own_namespace``. ``fallback_scope`` is the configuration's.
    ``decision_steps_max`` is what one decision, or one admission, may cost
    (``framework/budget``).
    """

    scheduler_name: str = "gpu-scheduler"
    placement: str = "pack"
    maps_allow: str = "labelled"
    expects_webhook: bool = False
    own_namespace: str = ""
    fallback_scope: str = "ours"
    decision_steps_max: int = DECISION_STEPS_MAX

    @property
    def spreads(self) -> bool:
        """Whether pods go to the emptiest node that takes them, not to the fullest."""
        return self.placement == "spread"

    @property
    def reach(self) -> WebhookScope:
        """About which pods the webhook is asked."""
        return WebhookScope(
            scheduler_name=self.scheduler_name,
            own_namespace=self.own_namespace,
            scope=self.fallback_scope,
        )
