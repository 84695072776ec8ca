"""The reflector and bytes that no API server sends, or objects that it cannot read."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from scheduler.state import event as ev
from scheduler.watch.client import Client
from scheduler.watch.reflector import Reflector, WatchSource
from tests.builders import pod
from tests.http.fakeapi import (
    Answer,
    FakeApi,
    Stream,
    at_version,
    failure,
    line,
    listed,
    reply,
    status_body,
    text,
)
from tests.http.watch.reflected import LIST, QUICK, QUIET, WATCH, running
from tests.http.watch.test_reflector import A, B
from tests.patience import PATIENCE_S

NO_EVENTS = [
    pytest.param(b"not json\n", id="no-json"),
    pytest.param(b"<html>503</html>\n", id="a-proxy"),
    pytest.param(b"\xff\xfe\n", id="no-utf-8"),
    pytest.param(b'{"type":"ADDED","object":{}}\n', id="no-metadata"),
    pytest.param(b'{"type":"ADDED","object":{"metadata":{}}}\n', id="no-version"),
    pytest.param(
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"8"},"spec":{}}}\n', id="no-uid"
    ),
    pytest.param(line("CHANGED", at_version(A, "8")), id="an-unknown-type"),
    pytest.param(b"[" * 10_000 + b"\n", id="endless-lists"),
    pytest.param(b"7\n", id="a-number"),
    pytest.param(b'{"type":"ADDED","object":"' + b"x" * 200 + b'"}\n', id="a-text"),
]


@pytest.mark.parametrize("garbage", NO_EVENTS)
async def test_undecodable_bytes_break_the_watch_and_force_a_relist(
    api: FakeApi, client: Client, garbage: bytes
) -> None:
    api.script(LIST, reply(listed("7", A)), reply(listed("9", A, B)))
    api.script(WATCH, Stream(line("ADDED", at_version(B, "8")), garbage), QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced((pod("a"),))
        assert await mirror.next() == ev.PodUpdated(pod("b"))
        assert await mirror.next() == ev.PodsReplaced((pod("a"), pod("b")))
        assert mirror.relists == [("pods", "unreadable")]
        assert len(mirror.warnings) == 1


NO_LISTS = [
    pytest.param(text("<html>sign in</html>", 200), id="a-proxy"),
    pytest.param(text("", 200), id="nothing"),
    pytest.param(reply({"metadata": {"resourceVersion": "7"}}), id="no-items"),
    pytest.param(reply({"metadata": {}, "items": []}), id="no-version"),
    pytest.param(reply({"metadata": {"resourceVersion": "7"}, "items": {}}), id="items-no-list"),
    pytest.param(reply(listed("7", {"metadata": {}})), id="an-item-without-a-name"),
    pytest.param(reply(status_body(200, "OK")), id="a-status"),
    pytest.param(text("[" * 10_000, 200), id="endless-lists"),
]


@pytest.mark.parametrize("answer", NO_LISTS)
async def test_invalid_list_is_retried_and_delivers_nothing(
    api: FakeApi, client: Client, answer: Answer
) -> None:
    """A list that seems empty would free every GPU of the cluster."""
    api.script(LIST, answer, reply(listed("9", A)))
    api.script(WATCH, QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced((pod("a"),))
        assert mirror.relists == [("pods", "unreadable")]


async def test_too_old_version_counts_as_a_relist(api: FakeApi, client: Client) -> None:
    api.script(LIST, reply(listed("7", A)))
    api.script(WATCH, failure(410, "Expired"), QUIET)
    async with running(client) as mirror:
        await mirror.next()
        await mirror.next()
        assert mirror.relists == [("pods", "expired")]


async def test_pod_of_a_newer_api_is_read_as_far_as_possible(api: FakeApi, client: Client) -> None:
    odd = at_version({**A, "spec": {"containers": "none", "nodeName": "n1"}}, "8")
    api.script(LIST, reply(listed("7")))
    api.script(WATCH, Stream(line("ADDED", odd), line("ADDED", at_version(B, "9")), end="hang"))
    async with running(client) as mirror:
        await mirror.next()
        seen = await mirror.next()
        assert isinstance(seen, ev.PodUpdated)
        assert (seen.pod.key, seen.pod.node_name) == ("team/a", "n1")
        assert "containers" in seen.pod.unread.requests
        assert await mirror.next() == ev.PodUpdated(pod("b"))
        assert mirror.relists == []


async def test_unread_field_may_be_nested_arbitrarily_deep(api: FakeApi, client: Client) -> None:
    deep = b'{"x":' * 5_000 + b"1" + b"}" * 5_000
    raw = line("ADDED", at_version({**A, "deep": 0}, "8")).replace(b'"deep":0', b'"deep":' + deep)
    raw = raw.replace(b'"deep": 0', b'"deep": ' + deep)
    api.script(LIST, reply(listed("7")))
    api.script(WATCH, Stream(raw, end="hang"))
    async with running(client) as mirror:
        await mirror.next()
        assert await mirror.next() == ev.PodUpdated(pod("a"))


async def test_undecodable_object_is_skipped_and_logged(api: FakeApi, client: Client) -> None:
    """Of other programs' sources too: theirs need not read everything."""

    def decode(content: bytes, _: bool) -> str:
        return str(msgspec.json.decode(content, type=dict[str, dict[str, str]])["metadata"]["name"])

    def decode_list(items: list[msgspec.Raw]) -> str:
        return ",".join(decode(bytes(item), False) for item in items)

    plain = {"metadata": {"name": "good", "uid": "u", "resourceVersion": "8"}}
    odd = {"metadata": {"name": "odd", "uid": "u", "resourceVersion": "8"}, "spec": 7}
    api.script("GET /things", reply(listed("7", odd, plain)))
    api.script("WATCH /things", Stream(line("ADDED", odd), line("ADDED", plain), end="hang"))
    told: asyncio.Queue[str] = asyncio.Queue()
    warned: list[str] = []
    source = WatchSource("things", "/things", decode, decode_list)
    reflector = Reflector(
        client,
        source,
        told.put_nowait,
        lambda _, text: warned.append(text),
        random.Random(1),
        QUICK,
    )
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert [await told.get(), await told.get()] == ["good", "good"]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [text.partition(" ")[0] for text in warned] == ["odd", "odd"]


async def test_endless_line_is_aborted(
    api: FakeApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.watch.client.WATCH_LINE_BYTES_MAX", 10_000)
    api.script(LIST, reply(listed("7", A)))
    api.script(WATCH, Stream(b"x" * 20_000, end="hang"), QUIET)
    async with running(client) as mirror:
        await mirror.next()
        async with asyncio.timeout(PATIENCE_S):
            await mirror.warned.wait()
        assert "more than 10000 bytes" in mirror.warnings[0][1]


async def test_server_delays_are_limited(api: FakeApi, client: Client) -> None:
    api.script(LIST, failure(429, "TooManyRequests", retry_after="9" * 5_000), reply(listed("7")))
    api.script(WATCH, QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced(())
