"""Events about what a pod has instead of its request (``model/granted_tier``)."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.framework.decision import Placement
from scheduler.framework.plugin import Plugin, ReserveContext
from scheduler.model import granted_tier, well_known
from scheduler.model.mig.node_geometry import memory_mib


def reserve(context: ReserveContext, placement: Placement) -> Placement:
    """The placement with a note for each request that the webhook changed."""
    pod = placement.pod
    if not pod.is_degraded and well_known.MEMORY_GIVEN not in pod.annotations:
        return placement
    node = context.node_info.node
    assert node is not None
    card_mib = memory_mib(node.labels)
    notes = granted_tier.notices(pod, card_mib, restores=context.settings.restores)
    return msgspec.structs.replace(placement, notes=placement.notes + notes)


PLUGIN: Final = Plugin(name="GrantedTier", skips_plain=True, reserve=reserve)
