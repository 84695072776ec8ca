"""What is read of ``migpartitions``, and what is made of one that cannot be read."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.crd import mig_partition_codec
from scheduler.model.crd.mig_partition import (
    MigInstance,
    NodePartitions,
    PartitionRequest,
    PartitionState,
)
from scheduler.model.gpu.device import MigPlacement
from scheduler.state import event as ev
from scheduler.watch.decode.mig_partitions import partitions_event, partitions_listed

mig_placements = st.builds(
    MigPlacement, st.integers(0, 63), st.integers(0, 7), st.sampled_from(("1g.10gb", "2g.20gb+me"))
)
orders = st.lists(
    st.builds(PartitionRequest, mig_placements, st.text(max_size=9), st.text(max_size=9)),
    max_size=4,
)
instances = st.lists(
    st.builds(
        MigInstance, mig_placements, st.sampled_from(PartitionState), *[st.text(max_size=9)] * 3
    ),
    max_size=4,
)


@given(orders, instances, st.none() | st.integers(0, 9))
def test_written_object_is_read_back(
    asked: list[PartitionRequest], there: list[MigInstance], epoch: int | None
) -> None:
    body = msgspec.json.decode(mig_partition_codec.encode("n1", asked, epoch, "own"))
    body |= msgspec.json.decode(mig_partition_codec.encode_status(there))

    found = partitions_event(msgspec.json.encode(body), is_gone=False)

    assert found == ev.PartitionsUpdated(NodePartitions("n1", tuple(asked), tuple(there), epoch))


UNREADABLE = [
    pytest.param(b'{"metadata":{"name":"n1"},"spec":{"instances":[{"gpu":0}]}}', id="half-a-place"),
    pytest.param(
        b'{"metadata":{"name":"n1"},"status":{"instances":[{"gpu":0,"profile":"1g.10gb",'
        b'"start":0,"state":"Maybe"}]}}',
        id="a-state-of-a-later-version",
    ),
    pytest.param(
        b'{"metadata":{"name":"n1"},"status":{"instances":[{"gpu":-65,"profile":"1g.10gb",'
        b'"start":0,"state":"Ready"}]}}',
        id="a-gpu-below-zero",
    ),
]


@pytest.mark.parametrize("content", UNREADABLE)
def test_unreadable_partition_status_is_ignored(content: bytes) -> None:
    seen = partitions_event(content, is_gone=False)

    assert isinstance(seen, ev.PartitionsUpdated)
    assert seen.partitions.unread
    assert msgspec.structs.replace(seen.partitions, unread="") == NodePartitions("n1")
    assert partitions_listed([msgspec.Raw(content)]) == ev.PartitionsReplaced((seen.partitions,))


def test_deleted_partition_object_is_named() -> None:
    assert partitions_event(b'{"metadata":{"name":"n1"}}', is_gone=True) == ev.PartitionsDeleted(
        "n1"
    )
