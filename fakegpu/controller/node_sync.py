"""The state of one node between two reconciliations, and the writes of a changed plan."""

from __future__ import annotations

import msgspec

from fakegpu.api_types import NodeFacts
from fakegpu.controller import documents
from fakegpu.controller.apply import Writer
from fakegpu.controller.cluster_cache import ClusterCache
from fakegpu.controller.plan_types import Memory, Plan
from fakegpu.node.advertised_devices import Amounts

#: Own labels, annotations and resources of a node.
Face = tuple[dict[str, str], dict[str, str], Amounts | None]


class Written(msgspec.Struct):
    """The last writes for one node, and the resulting versions."""

    config_map: bytes = b""
    face: Face | None = None
    zones: bytes | None = None
    map_version: int = 0
    node_version: int = 0


class NodeSyncState(msgspec.Struct):
    """The state of one node: its memory, the last writes, the last events."""

    memory: Memory = Memory()
    written: Written | None = None
    reported: frozenset[tuple[str, str, str]] = frozenset()
    failures: int = 0
    first_seen: float | None = None
    #: The next change of a pod's utilization script (monotonic seconds).
    wakes_at: float = 0.0


async def write_news(
    writer: Writer, world: ClusterCache, node: NodeFacts, made: Plan, state: NodeSyncState
) -> None:
    """Write the devices first, then the node, whose labels start the agent.

    An unchanged document is written again only if a newer version of the object differs.
    """
    before, state.written = state.written or Written(), None
    now = msgspec.structs.replace(before)
    record = world.map_of(node.name)
    name = world.map_name(node.name)
    is_news = record.version >= before.map_version if record else name in world.lost
    if made.config_map != before.config_map or (
        is_news and not documents.is_recorded(made, record)
    ):
        world.lost.discard(name)
        now.map_version = await writer.config_map(name, made.config_map)
        now.config_map = made.config_map
    face = (made.labels, made.annotations, made.amounts)
    is_fresh = node.version >= before.node_version
    if face != before.face or (is_fresh and not documents.is_shown(made, node)):
        now.node_version = await writer.node(node, *face)
        now.face = face
    if made.zones is not None and made.zones != before.zones:
        await writer.zones(node.name, made.zones)
        now.zones = made.zones
    state.written = now
