"""Adds the finalizer to a ResourceClaim in the API's binary form, byte for byte otherwise.

The parameters in ``spec.devices.config`` are bytes of the claim's author. A JSON answer of the API
server has them without blanks, and a patch writes them so; the API server then refuses the write
as a change of the spec, which is immutable. Only the binary form keeps them as they are.

The numbers are those of ``k8s.io/apimachinery`` (``runtime.Unknown``, ``metav1.ObjectMeta``) and
``k8s.io/api/resource/v1``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from scheduler.model.well_known import CLAIM_FINALIZER

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_OBJECT: Final = 2  # runtime.Unknown: raw
_METADATA: Final = 1  # ResourceClaim: metadata
_VERSION: Final = 6  # ObjectMeta: resourceVersion
_FINALIZERS: Final = 14  # ObjectMeta: finalizers
_BYTES: Final = 2  # wire type: length and bytes
_FIXED: Final = {1: 8, 5: 4}  # wire types of fixed length
_VARINT_MAX: Final = 10


def version_of(content: bytes) -> str:
    """The version of an object; ValueError if this is no object of the API."""
    metadata = _only(_only(_message(content), _OBJECT), _METADATA)
    return _only(metadata, _VERSION).decode()


def with_finalizer(content: bytes) -> bytes:
    """The object with the finalizer; ValueError if this is no object of the API."""

    def protect(metadata: bytes) -> bytes:
        return metadata + _field(_FINALIZERS, CLAIM_FINALIZER.encode())

    def change(claim: bytes) -> bytes:
        return _replaced(claim, _METADATA, protect)

    return _MAGIC + _replaced(_message(content), _OBJECT, change)


def _message(content: bytes) -> bytes:
    if not content.startswith(_MAGIC):
        raise ValueError("no object of the API in its binary form")
    return content[len(_MAGIC) :]


def _replaced(message: bytes, number: int, change: Callable[[bytes], bytes]) -> bytes:
    """The message with another value of one field."""
    return b"".join(
        _field(number, change(value)) if found == number else whole
        for found, whole, value in _fields(message)
    )


def _only(message: bytes, number: int) -> bytes:
    for found, _, value in _fields(message):
        if found == number:
            return value
    raise ValueError(f"a message without the field {number}")


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Number, whole bytes and value of each field; the value is empty where it is a number."""
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        value = b""
        match key & 7:
            case 0:
                _, at = _varint(message, at)
            case wire_type if wire_type in _FIXED:
                at += _FIXED[wire_type]
            case 2:
                size, at = _varint(message, at)
                value = message[at : at + size]
                at += size
            case wire_type:
                raise ValueError(f"a field of the wire type {wire_type}")
        if at > len(message):
            raise ValueError("a field that is cut off")
        yield key >> 3, message[start:at], value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(message[at : at + _VARINT_MAX]):
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return value, at + position + 1
    raise ValueError("a number that is cut off")


def _field(number: int, value: bytes) -> bytes:
    return _number(number << 3 | _BYTES) + _number(len(value)) + value


def _number(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
