"""The PodGroups of Volcano (``scheduling.volcano.sh/v1beta1``): their minimum, and that of tasks.

The queue, ``minResources``, the network topology and ``subGroupPolicy`` are Volcano's business.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model.pods.gang import GangSource, PodGroup
from scheduler.watch.decode.api_types import Meta
from scheduler.watch.decode.groups.group_decoder import GroupDecoder


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of the spec that is read."""

    min_member: int = 1
    min_task_member: dict[str, int] | None = None


class _Wire(msgspec.Struct, frozen=True):
    """A PodGroup as far as it is read."""

    metadata: Meta
    spec: _Spec = _Spec()


_WIRE: Final = msgspec.json.Decoder(_Wire)


def _read(content: bytes) -> PodGroup:
    wire = _WIRE.decode(content)
    meta, minimum = wire.metadata, max(1, wire.spec.min_member)
    tasks = {name: least for name, least in (wire.spec.min_task_member or {}).items() if least > 0}
    # Volcano itself reads the minima of tasks only up to the minimum of the whole group.
    roles = tasks if sum(tasks.values()) == minimum else {}
    return PodGroup(meta.namespace, meta.name, minimum, GangSource.VOLCANO.value, roles)


POD_GROUPS: Final = GroupDecoder(GangSource.VOLCANO, _read)
