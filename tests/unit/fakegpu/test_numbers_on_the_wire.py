"""Lists of numbers in the kubelet's messages, in both ways in which they may be written."""

from __future__ import annotations

import pytest

from fakegpu.deviceplugin.messages import ContainerResources
from fakegpu.protobuf import Malformed, decode, encode

NAMED = b"\x0a\x01c"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(NAMED + b"\x18\x01\x18\xac\x02", id="one-field-each"),
        pytest.param(NAMED + b"\x1a\x03\x01\xac\x02", id="all-in-one-field"),
        pytest.param(b"\x1a\x01\x01" + NAMED + b"\x18\xac\x02", id="both"),
    ],
)
def test_numbers_are_read_however_they_were_packed(content: bytes) -> None:
    """A kubelet that pins processors packs their numbers; protobuf allows either."""
    assert decode(ContainerResources, content) == ContainerResources("c", processors=(1, 300))


def test_what_is_written_is_read_again_and_a_torn_number_is_an_error() -> None:
    told = ContainerResources("c", processors=(0, 5, -1))
    assert decode(ContainerResources, encode(told)) == told
    packed = b"\x1a\x0a" + b"\xff" * 9 + b"\x01"
    assert decode(ContainerResources, packed).processors == (-1,)
    with pytest.raises(Malformed):
        decode(ContainerResources, b"\x1a\x02\x01\xac")
