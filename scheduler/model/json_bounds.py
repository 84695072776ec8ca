"""Decoding of untrusted bytes: the exceptions, and JSON that is nested too deeply."""

from __future__ import annotations

import re
from typing import Final

#: The exceptions of this product's decoders: msgspec's errors, bad UTF-8 and a QuantityError are
#: ValueErrors; JSON beyond the interpreter's stack is a RecursionError.
UNREADABLE: Final = (ValueError, RecursionError)

_DEPTH_MAX: Final = 100
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def shallow(content: bytes) -> bytes:
    """The same JSON with ``null`` in place of values nested deeper than any field that is read.

    An ignored field (``metadata.managedFields``, for example) may be nested arbitrarily deep, and a
    decoder that skips it still descends completely.
    """
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(content):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if depth == _DEPTH_MAX + 1:
                    kept += [content[start : token.start()], b"null"]
            case b"}" | b"]":
                if depth == _DEPTH_MAX + 1:
                    start = token.end()
                depth -= 1
    if depth > _DEPTH_MAX:  # cut off within the deep part: it stays undecodable
        return content
    return b"".join([*kept, content[start:]])
