"""Decodes ``migpartitions`` objects, which operators of dynamic MIG nodes write.

An undecodable object counts as one without instances, with the problem in ``unread``: a pod with an
instance of unknown place then holds its whole node, which is safe.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model.crd import mig_partition_codec
from scheduler.model.crd.mig_partition import NodePartitions
from scheduler.model.json_bounds import UNREADABLE
from scheduler.state import event as ev
from scheduler.watch.decode.unreadable import problem_text


def partitions_event(content: bytes, is_gone: bool) -> ev.Event:
    """The event of a watch line."""
    return (
        ev.PartitionsDeleted(mig_partition_codec.name_in(content))
        if is_gone
        else ev.PartitionsUpdated(_read(content))
    )


def partitions_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The event of a list."""
    return ev.PartitionsReplaced(tuple(_read(bytes(item)) for item in items))


def _read(content: bytes) -> NodePartitions:
    try:
        return mig_partition_codec.decode(content)
    except UNREADABLE as error:
        return NodePartitions(mig_partition_codec.name_in(content), unread=problem_text(error))
