"""Messages of the kubelet's gRPC interfaces, as bytes and back.

A message is a frozen struct whose fields stand in the order of their numbers, from 1 on: texts,
booleans, whole numbers, messages, lists (tuples) of texts, numbers or messages, maps (dicts) from
text to text or message. Fields that are not known here are skipped, as the format wants it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED: Final = {FIXED64: 8, FIXED32: 4}
_ALL_BITS: Final = (1 << 64) - 1
VARINT_BYTES_MAX: Final = 10


class Message(msgspec.Struct, frozen=True):
    """A message; every field has a default, which is what an absent field means."""


class Malformed(ValueError):
    """Bytes that are no message."""


M = TypeVar("M", bound=Message)


def encode(message: Message) -> bytes:
    """The message's bytes."""
    parts: list[bytes] = []
    for number, (name, kind) in enumerate(_fields(type(message)), 1):
        value = getattr(message, name)
        if isinstance(kind, inspect.DictType):
            for key, inner in value.items():
                entry = _field(1, key) + _field(2, inner)
                parts.append(_varint(number << 3 | BYTES) + _varint(len(entry)) + entry)
        elif isinstance(kind, inspect.VarTupleType):
            parts += [_field(number, inner) for inner in value]
        elif value:
            parts.append(_field(number, value))
    return b"".join(parts)


def _field(number: int, value: Any) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | VARINT) + _varint(value & _ALL_BITS)
    content = encode(value) if isinstance(value, Message) else value.encode()
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def decode(kind: type[M], content: bytes) -> M:
    """The message in these bytes, or Malformed."""
    fields = _fields(kind)
    values: dict[str, Any] = {}
    for number, value in _read(content):
        if not 1 <= number <= len(fields):
            continue
        name, wanted = fields[number - 1]
        if isinstance(wanted, inspect.DictType):
            entry = dict(_read(_as_bytes(value)))
            key = _value(wanted.key_type, entry.get(1, b""))
            values.setdefault(name, {})[key] = _value(wanted.value_type, entry.get(2, b""))
        elif isinstance(wanted, inspect.VarTupleType):
            more = _items(wanted.item_type, value)
            values[name] = (*values.get(name, ()), *more)
        else:
            values[name] = _value(wanted, value)
    return kind(**values)


def _items(wanted: inspect.Type, value: int | bytes) -> Iterator[Any]:
    """One item of a list, or, as numbers may be written, many of them in one field."""
    if not isinstance(wanted, inspect.IntType) or isinstance(value, int):
        yield _value(wanted, value)
        return
    at = 0
    while at < len(value):
        number, at = _read_varint(value, at)
        yield _signed(number)


def _value(wanted: inspect.Type, value: int | bytes) -> Any:
    if isinstance(wanted, inspect.UnionType):  # a message, or None where it is absent
        wanted = next(one for one in wanted.types if not isinstance(one, inspect.NoneType))
    if isinstance(wanted, inspect.StructType):
        assert issubclass(wanted.cls, Message), "messages consist of messages"
        return decode(wanted.cls, _as_bytes(value))
    if isinstance(wanted, inspect.StrType):
        return _as_bytes(value).decode(errors="replace")
    if isinstance(value, bytes):
        raise Malformed("a number was expected")
    return bool(value) if isinstance(wanted, inspect.BoolType) else _signed(value)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Malformed("a number was not expected")
    return value


def _read(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers of fields and their raw values."""
    at = 0
    while at < len(content):
        tag, at = _read_varint(content, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _read_varint(content, at)
            yield number, value
            continue
        if kind not in (BYTES, *_FIXED):
            raise Malformed(f"field {number} is of the unknown kind {kind}")
        size = _FIXED.get(kind, 0)
        if kind == BYTES:
            size, at = _read_varint(content, at)
        if at + size > len(content):
            raise Malformed(f"field {number} ends behind the message's end")
        yield number, content[at : at + size]
        at += size


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for position in range(VARINT_BYTES_MAX):
        if at >= len(content):
            raise Malformed("it ends within a number")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return value & _ALL_BITS, at
    raise Malformed("a number is too long")


@lru_cache(maxsize=64)
def _fields(kind: type[Message]) -> tuple[tuple[str, inspect.Type], ...]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType), "messages are structs"
    return tuple((field.name, field.type) for field in info.fields)
