"""Requests and responses as values, independent of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


class Head(msgspec.Struct, frozen=True):
    """A request before its body was read; header names match in any case."""

    method: str
    #: The path as sent, without the query.
    path: str
    headers: Mapping[str, str]
    #: Whether the client showed a trusted certificate.
    is_known: bool = False
    #: The common name of that certificate; empty without one.
    client_name: str = ""
    #: What follows the question mark, as sent.
    query: str = ""


class Request(msgspec.Struct, frozen=True):
    """A complete request."""

    head: Head
    body: bytes = b""


class Reply(msgspec.Struct, frozen=True):
    """A status, a body and headers."""

    status: int
    content: bytes = b""
    content_type: str = JSON
    #: The seconds after which the client asks again; 0: it is not told.
    retry_after_s: int = 0
