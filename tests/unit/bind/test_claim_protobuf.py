"""The finalizer is added to the binary form of a claim, and nothing else of it changes.

The messages are those that ``resourceclaims`` of a real API server has, made by hand.
"""

from __future__ import annotations

import pytest

from scheduler.bind.claim_protobuf import version_of, with_finalizer
from tests.dra import FINALIZER


def field(number: int, value: bytes) -> bytes:
    """A field of bytes; numbers to 15, and up to 127 bytes or 16383."""
    size = len(value)
    length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([number << 3 | 2]) + length + value


def claim(finalizers: bytes = b"", spec: bytes = b'{"kind": "B"}', version: str = "1234") -> bytes:
    """A claim with numbers of every wire type around what is read."""
    generation = bytes([7 << 3, 0xAC, 0x02])  # 300
    metadata = field(1, b"gpu") + field(6, version.encode()) + generation + field(11, b"labels")
    body = field(1, metadata + finalizers) + field(2, spec) + field(3, b"")
    fixed = bytes([5 << 3 | 5]) + b"1234" + bytes([6 << 3 | 1]) + b"12345678"
    return b"k8s\x00" + field(1, b"v1") + field(2, body) + fixed + field(4, b"")


@pytest.mark.parametrize("size", [10, 100, 200, 9_000])
def test_finalizer_is_added_and_nothing_else_changes(size: int) -> None:
    spec = b" " * size

    found = with_finalizer(claim(field(14, b"kept"), spec))

    assert found == claim(field(14, b"kept") + field(14, FINALIZER.encode()), spec)


def test_version_is_read() -> None:
    assert version_of(claim()) == "1234"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"kind": "ResourceClaim"}', id="json"),
        pytest.param(b"k8s\x00", id="no-object"),
        pytest.param(b"k8s\x00" + field(2, field(1, field(1, b"x"))), id="no-version"),
        pytest.param(b"k8s\x00\x13", id="a-group"),
        pytest.param(b"k8s\x00" + b"\x80" * 20, id="an-endless-number"),
    ],
)
def test_other_bytes_have_no_version(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"no object|without the field|wire type|cut off"):
        version_of(content)


def test_object_that_is_cut_off_has_no_version() -> None:
    whole = claim()
    end = whole.index(bytes([5 << 3 | 5]) + b"1234")  # behind the object

    for length in range(end):
        with pytest.raises(ValueError, match=r"no object|without the field|cut off"):
            version_of(whole[:length])
