"""What two readers of HTTP could understand in two ways, and what our server makes of it.

A proxy in front that reads another request than we do would let a client smuggle one past it.
"""

from __future__ import annotations

import re
from typing import Final

import pytest
from structlog.testing import capture_logs

from tests.http.httpserver.echo_server import serving

GET: Final = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
POST: Final = b"POST /mutate HTTP/1.1\r\nHost: x\r\n"
NEXT: Final = b"GET /smuggled HTTP/1.1\r\nHost: y\r\n\r\n"

REFUSED: Final = {
    "bare LF": b"GET /healthz HTTP/1.1\nHost: x\n\n",
    "bare LF at the end of the head": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\n",
    "bare LF hides a length": POST + b"X: a\nContent-Length: 37\r\n\r\n" + NEXT,
    "bare LF hides chunks": POST + b"X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare CR hides a length": POST + b"X: a\rContent-Length: 37\r\n\r\n" + NEXT,
    "the same length twice": POST + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "a list of lengths": POST + b"Content-Length: 0, 0\r\n\r\n",
    "length +5": POST + b"Content-Length: +5\r\n\r\nabcde",
    "length -1": POST + b"Content-Length: -1\r\n\r\n",
    "length 0x5": POST + b"Content-Length: 0x5\r\n\r\nabcde",
    "length with control characters": POST + b"Content-Length: \x0b5\x1c\r\n\r\nabcde",
    "length with another script's space": POST + b"Content-Length: \xa05\r\n\r\nabcde",
    "length 5 5": POST + b"Content-Length: 5 5\r\n\r\nabcde",
    "an empty length": POST + b"Content-Length: \r\n\r\n",
    "a length of 26 digits": POST + b"Content-Length: " + b"9" * 26 + b"\r\n\r\n",
    "NUL in a name": POST + b"Content-Length\x00: 5\r\n\r\nabcde",
    "VT in a name": POST + b"Transfer-Encoding\x0b: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Content-Length : 5\r\n\r\nabcde",
    "no name": GET + b": b\r\n\r\n",
    "no colon": GET + b"nothing\r\n\r\n",
    "a name beyond ASCII": GET + b"X\xe9: b\r\n\r\n",
    "NUL in a value": GET + b"X: a\x00b\r\n\r\n",
    "a control character in a value": GET + b"X: a\x01b\r\n\r\n",
    "DEL in a value": GET + b"X: a\x7fb\r\n\r\n",
    "a folded value": GET + b"X: a\r\n b\r\n\r\n",
    "a folded length": GET + b"X: a\r\n Content-Length: 5\r\n\r\n",
    "length and chunks": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks": POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "encoded chunks": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "transfer encoding identity": POST + b"Transfer-Encoding: identity\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"Host: y\r\n\r\n",
    "two content types": POST + b"Content-Type: a\r\nContent-Type: b\r\n\r\n",
    "a minor version of letters": b"GET /healthz HTTP/1.evil\r\nHost: x\r\n\r\n",
    "HTTP/1.2": b"GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "http in lower case": b"GET /healthz http/1.1\r\nHost: x\r\n\r\n",
    "a tab in the request line": b"GET\t/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "an unregistered method": b"SOURCE /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "NUL in the path": b"GET /healthz\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a control character in the path": b"GET /hea\x01lthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path beyond ASCII": b"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
    "an empty line first": b"\r\n" + GET + b"\r\n",
    "a line feed first": b"\n" + GET + b"\r\n",
    "a tunnel": b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n" + NEXT,
    "an upgrade to websockets": GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n" + NEXT,
    "an upgrade to HTTP/2": GET + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n" + NEXT,
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
async def test_an_ambiguous_request_is_refused_and_its_connection_closed(sent: bytes) -> None:
    """Whatever else was sent on it is not read; the log has one short line at most."""
    with capture_logs() as lines:
        async with serving() as server:
            reader, writer = await server.connect()
            writer.write(sent)
            content = await reader.read()

    assert re.findall(rb"^HTTP/[01]\.\d (\d)\d\d ", content, re.MULTILINE) == [b"4"]
    assert server.asked == []
    assert len(lines) <= 1
    assert all(len(str(line)) < 300 for line in lines)


HARMLESS: Final = {
    "an absolute target": (
        b"GET https://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        "https://x/healthz",
    ),
    "dots in the path": (
        b"GET /healthz/../metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        "/healthz/../metrics",
    ),
    "two spaces": (b"GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "/healthz"),
    "zeros before a length": (POST + b"Content-Length: 00005\r\n\r\nabcde", "/mutate"),
    "a value beyond ASCII": (GET + b"X: a\xe9b\r\n\r\n", "/healthz"),
    "a host with a space": (b"GET /healthz HTTP/1.1\r\nHost: x y\r\n\r\n", "/healthz"),
}


@pytest.mark.parametrize(("sent", "path"), HARMLESS.values(), ids=HARMLESS)
async def test_unusual_but_unambiguous_requests_are_accepted(sent: bytes, path: str) -> None:
    """One request, and the next one begins where it ends."""
    async with serving() as server:
        reader, writer = await server.connect()
        writer.write(sent + GET + b"Connection: close\r\n\r\n")
        content = await reader.read()

    assert content.count(b"HTTP/1.1 200 OK") == 2
    assert [request.head.path for request in server.asked] == [path, "/healthz"]
