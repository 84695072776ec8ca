"""HTTP/1.1 as bytes and values: what our own servers read and write, and nothing else of it.

Whole bodies with a length, one after the other; no chunks, no upgrades. Pure: where the bytes
come from is the matter of ``httpserver``.
"""

from __future__ import annotations

from typing import Final

import msgspec

HEAD_MAX: Final = 16 * 1024
JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_END: Final = b"\r\n\r\n"
_ONCE: Final = ("content-length", "transfer-encoding", "host")
_REASONS: Final = {200: "OK", 204: "No Content"}


class Request(msgspec.Struct, frozen=True):
    """A request that arrived whole; header names are in lower case, the path has no query."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = {}
    is_last: bool = False
    #: Whether the client showed a certificate that we trust.
    is_known: bool = False


class Reply(msgspec.Struct, frozen=True):
    """A status and what goes with it."""

    status: int
    content: bytes = b""
    content_type: str = JSON


class BadRequest(Exception):
    """A request that cannot be read; ``status`` says why, the text is one line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status

    @property
    def reply(self) -> Reply:
        """What the client is told."""
        return Reply(self.status, str(self).encode(), TEXT)


class Head(msgspec.Struct, frozen=True):
    """A request's first part, with how long the body will be."""

    method: str
    path: str
    headers: dict[str, str]
    length: int
    is_last: bool

    @property
    def wants_word(self) -> bool:
        """Whether the client waits to be told to go on (curl does, with long bodies)."""
        return self.headers.get("expect", "").lower() == "100-continue"


def take_head(buffer: bytearray, body_max: int) -> Head | None:
    """The next request's head, taken out of the buffer; None while it is incomplete."""
    end = buffer.find(_END)
    if end > HEAD_MAX or (end < 0 and len(buffer) > HEAD_MAX):
        raise BadRequest(431, "the head is too long")
    if end < 0:
        return None
    first, *lines = buffer[:end].decode("latin-1").split("\r\n")
    del buffer[: end + len(_END)]
    method, path, version = _request_line(first)
    headers = _headers(lines)
    length = _length(headers)
    if length > body_max:
        raise BadRequest(413, f"Maximum request body size {body_max} exceeded")
    wish = headers.get("connection", "").lower()
    is_last = wish == "close" or (version == "HTTP/1.0" and wish != "keep-alive")
    return Head(method, path, headers, length, is_last)


def take_body(buffer: bytearray, head: Head, *, is_known: bool) -> Request | None:
    """The whole request, its body taken out of the buffer; None while that is incomplete."""
    if len(buffer) < head.length:
        return None
    body = bytes(buffer[: head.length])
    del buffer[: head.length]
    return Request(head.method, head.path, body, head.headers, head.is_last, is_known)


def encode(reply: Reply, *, is_last: bool = False, without_body: bool = False) -> bytes:
    """The bytes of an answer; one to HEAD says how long its body would be."""
    reason = _REASONS.get(reply.status, "Refused")
    last = "Connection: close\r\n" if is_last else ""
    head = (
        f"HTTP/1.1 {reply.status} {reason}\r\nContent-Type: {reply.content_type}\r\n"
        f"{last}Content-Length: {len(reply.content)}\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if without_body else reply.content)


def _request_line(line: str) -> tuple[str, str, str]:
    parts = line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequest(400, "not HTTP/1.1")
    return parts[0], parts[1].partition("?")[0], parts[2]


def _headers(lines: list[str]) -> dict[str, str]:
    """By name; what two readers could understand in two ways is refused."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or not key or key != key.strip() or (key in headers and key in _ONCE):
            raise BadRequest(400, "a bad header")
        headers.setdefault(key, value.strip())
    return headers


def _length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(411, "a length is required")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        raise BadRequest(400, "a bad length")
    return int(length)
