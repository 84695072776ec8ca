"""Requests and answers as values: what handlers take and give, whatever server is in front."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


class Head(msgspec.Struct, frozen=True):
    """A request before its body was read; header names match in any case."""

    method: str
    #: As it was sent, without the query.
    path: str
    headers: Mapping[str, str]
    #: Whether the client showed a certificate that we trust.
    is_known: bool = False


class Request(msgspec.Struct, frozen=True):
    """A request that arrived whole."""

    head: Head
    body: bytes = b""


class Reply(msgspec.Struct, frozen=True):
    """A status and what goes with it."""

    status: int
    content: bytes = b""
    content_type: str = JSON
