"""The door to the API server: bytes or one of two exceptions, and nothing of aiohttp."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from scheduler.watch.client import ApiError, Client, Unreachable
from tests.http.fakeapi import FakeApi, Stream, failure, reply, reset, text


async def test_response_bytes_are_returned_unchanged(api: FakeApi, client: Client) -> None:
    api.script("GET /x", reply({"a": 1}))

    assert await client.request("GET", "/x", params={"limit": "1"}) == b'{"a": 1}'
    assert api.seen[0].query == {"limit": "1"}


async def test_the_token_and_the_type_of_the_body_are_sent(api: FakeApi, client: Client) -> None:
    headers: dict[str, str] = {}

    async def remember(request: web.Request) -> web.StreamResponse:
        headers.update(request.headers)
        return web.json_response({})

    api.script("PATCH /x", remember)
    await client.request("PATCH", "/x", b"{}", content_type="application/merge-patch+json")

    assert headers["Authorization"] == "Bearer test"
    assert headers["Content-Type"] == "application/merge-patch+json"


async def test_server_refusal_is_an_api_error(api: FakeApi, client: Client) -> None:
    api.script("GET /x", failure(429, "TooManyRequests", "slow down", retry_after="7"))

    with pytest.raises(ApiError) as refused:
        await client.request("GET", "/x")
    error = refused.value
    assert (error.status, error.reason, error.message) == (429, "TooManyRequests", "slow down")
    assert error.retry_after_s == 7.0
    assert str(error) == "429 TooManyRequests: slow down"


@pytest.mark.parametrize("header", ["", "soon", "-1", "\u0663", "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_unreadable_retry_after_is_ignored(api: FakeApi, client: Client, header: str) -> None:
    api.script("GET /x", failure(503, "X", retry_after=header))

    with pytest.raises(ApiError) as refused:
        await client.request("GET", "/x")
    assert refused.value.retry_after_s == 0.0


async def test_proxy_error_page_is_an_api_error(api: FakeApi, client: Client) -> None:
    api.script("GET /x", text("<html>" + "x" * 1000, 502))

    with pytest.raises(ApiError, match="502: <html>x") as refused:
        await client.request("GET", "/x")
    assert len(refused.value.message) == 200


async def test_a_broken_connection_is_unreachable(api: FakeApi, client: Client) -> None:
    api.script("POST /x", reset)

    with pytest.raises(Unreachable, match="POST /x: "):
        await client.request("POST", "/x", b"{}")


async def test_closed_port_is_unreachable(api: FakeApi, client: Client) -> None:
    await api.stop()

    with pytest.raises(Unreachable, match="GET /x: "):
        await client.request("GET", "/x")


async def test_no_answer_in_time_is_unreachable(api: FakeApi, client: Client) -> None:
    api.script("GET /x", Stream(end="hang"))

    with pytest.raises(Unreachable, match="GET /x: "):
        await client.request("GET", "/x", timeout_s=0.05)


async def lines(client: Client, silence_s: float = 5.0) -> list[bytes]:
    async with client.stream("/w", {"watch": "true"}, silence_s=silence_s, answer_s=5.0) as stream:
        return [line async for line in stream]


async def test_lines_are_joined_across_chunks(api: FakeApi, client: Client) -> None:
    api.script("WATCH /w", Stream(b"on", b"e\ntwo\nth", b"ree", b"\n\n", b"four\n"))

    assert await lines(client) == [b"one", b"two", b"three", b"four"]


async def test_line_longer_than_the_buffer_is_complete(api: FakeApi, client: Client) -> None:
    api.script("WATCH /w", Stream(b"x" * 2_000_000, b"\n"))

    assert [len(line) for line in await lines(client)] == [2_000_000]


async def test_incomplete_last_line_is_dropped(api: FakeApi, client: Client) -> None:
    """A clean end in the middle of a line: a proxy closed the connection politely."""
    api.script("WATCH /w", Stream(b"one\n", b'{"type":"ADD'))

    assert await lines(client) == [b"one"]


@pytest.mark.parametrize("end", ["hang", "break"])
async def test_silence_and_a_broken_stream_are_unreachable(
    api: FakeApi, client: Client, end: str
) -> None:
    api.script("WATCH /w", Stream(b"one\n", end=end))

    with pytest.raises(Unreachable, match="watch /w: "):
        await lines(client, silence_s=0.1)


async def test_a_watch_without_an_answer_is_asked_for_once(api: FakeApi, client: Client) -> None:
    """A proxy before a server that is away would else see every attempt twice."""
    api.script("WATCH /w", reset)

    with pytest.raises(Unreachable, match="watch /w: "):
        await lines(client)
    assert api.count("WATCH /w") == 1


async def test_a_refused_watch_is_an_api_error(api: FakeApi, client: Client) -> None:
    api.script("WATCH /w", failure(410, "Expired"))

    with pytest.raises(ApiError, match="410 Expired"):
        await lines(client)


async def test_cancellation_is_no_server_error(api: FakeApi, client: Client) -> None:
    api.script("GET /x", Stream(end="hang"))
    task = asyncio.create_task(client.request("GET", "/x"))
    await api.next("GET /x")
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
