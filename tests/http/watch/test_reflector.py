"""The reflector against a server that misbehaves in every way a real one can."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest
from aiohttp import web

from scheduler.state import event as ev
from scheduler.watch.client import Client
from scheduler.watch.informers import NODES, PODS
from scheduler.watch.reflector import Limits, Reflector
from tests.builders import pod, pod_json
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
from tests.patience import PATIENCE_S

A, B = pod_json("a"), pod_json("b")
assert PODS.paging is not None
PAGING = PODS.paging


async def test_list_then_watch_from_its_version(api: FakeApi, client: Client) -> None:
    api.script(LIST, reply(listed("7", A)))
    api.script(WATCH, QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced((pod("a"),))
        watch = await api.next(WATCH)

    assert mirror.reflector.is_synced.is_set()
    first = api.seen[0]
    size = {"limit": str(PAGING.size)}
    assert first.query == {"fieldSelector": PODS.selector, **size}, "never resourceVersion=0"
    assert watch.query["resourceVersion"] == "7"
    assert watch.query["allowWatchBookmarks"] == "true"
    assert watch.query["fieldSelector"] == PODS.selector
    assert int(watch.query["timeoutSeconds"]) < QUICK.silence_max_s * 60


async def test_case_16_no_request_needs_a_server_with_streaming_lists(
    api: FakeApi, client: Client
) -> None:
    """A server without WatchList answers 422 to ``sendInitialEvents``; no request sends it."""
    api.script(LIST, reply(listed("7", A)))
    api.script(WATCH, Stream(), QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced((pod("a"),))
        await api.next(WATCH)
        await api.next(WATCH)

    assert {"sendInitialEvents", "resourceVersionMatch"}.isdisjoint(
        key for request in api.seen for key in request.query
    )


async def test_an_empty_list_without_items_is_a_list(api: FakeApi, client: Client) -> None:
    api.script(LIST, reply({"metadata": {"resourceVersion": "7"}, "items": None}))
    api.script(WATCH, QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced(())


async def test_opened_watch_is_reported_at_once(api: FakeApi, client: Client) -> None:
    """A loop that waits for a healthy watch would sleep for a second otherwise."""
    api.script(LIST, reply(listed("7", A)))
    api.script(WATCH, QUIET)
    async with running(client) as mirror, asyncio.timeout(PATIENCE_S):
        await mirror.opened.wait()
        assert mirror.reflector.is_healthy


@pytest.mark.contract("S2-7")
async def test_clean_watch_end_resumes_at_the_last_version(api: FakeApi, client: Client) -> None:
    api.script(LIST, reply(listed("7")))
    api.script(
        WATCH,
        Stream(
            line("ADDED", at_version(A, "8"))
            + line("MODIFIED", at_version(B, "9"))
            + line("DELETED", at_version(A, "10"))
        ),
        QUIET,
    )
    async with running(client) as mirror:
        found = [await mirror.next() for _ in range(4)]
        await api.next(WATCH)
        again = await api.next(WATCH)

    assert found == [
        ev.PodsReplaced(()),
        ev.PodUpdated(pod("a")),
        ev.PodUpdated(pod("b")),
        ev.PodDeleted(pod("a").uid),
    ]
    assert again.query["resourceVersion"] == "10"
    assert api.count(LIST) == 1


async def test_bookmark_updates_the_resource_version_only(api: FakeApi, client: Client) -> None:
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "99"}}
    api.script(LIST, reply(listed("7")))
    api.script(WATCH, Stream(line("BOOKMARK", bookmark)), QUIET)
    async with running(client) as mirror:
        await mirror.next()
        await api.next(WATCH)
        again = await api.next(WATCH)

        assert again.query["resourceVersion"] == "99"
        assert mirror.events.empty()


EXPIRED = [
    pytest.param(failure(410, "Expired"), id="as-a-status"),
    pytest.param(Stream(line("ERROR", status_body(410, "Expired"))), id="as-an-event"),
    pytest.param(Stream(line("ERROR", status_body(0, "Expired"))), id="by-its-reason-alone"),
]


@pytest.mark.parametrize("gone", EXPIRED)
async def test_expired_version_triggers_a_relist(
    api: FakeApi, client: Client, gone: Answer
) -> None:
    """Semantics case 13: what is gone from the list is gone from the state, nothing is twice."""
    api.script(LIST, reply(listed("7", A)), reply(listed("20", B)))
    api.script(WATCH, gone, QUIET)
    async with running(client) as mirror:
        found = [await mirror.next(), await mirror.next()]
        await api.next(WATCH)
        again = await api.next(WATCH)

    assert found == [ev.PodsReplaced((pod("a"),)), ev.PodsReplaced((pod("b"),))]
    assert again.query["resourceVersion"] == "20"
    assert mirror.warnings == []


async def test_api_server_without_history_is_relisted_at_once(api: FakeApi, client: Client) -> None:
    """As after every restart; the failures before it have paused enough."""
    api.script(LIST, reply(listed("7")), reply(listed("20")))
    api.script(WATCH, *([failure(503)] * 3), failure(410, "Expired"), QUIET)
    loop = asyncio.get_running_loop()
    async with running(client, Limits(pause_first_s=0.3, pause_max_s=60.0)) as mirror:
        await mirror.next()
        for _ in range(4):
            await api.next(WATCH)
        expired = loop.time()
        await mirror.next()

        # The fourth pause in a row is eight times the first, or a random part of it above a half.
        assert loop.time() - expired < 0.3 * 8 / 2


async def test_repeated_expired_answers_are_retried_with_backoff(
    api: FakeApi, client: Client
) -> None:
    """Or every list would be followed by the next one at once."""
    api.script(LIST, reply(listed("7")))
    api.script(WATCH, failure(410, "Expired"))
    slow = Limits(pause_first_s=30.0, pause_max_s=30.0)
    async with running(client, slow) as mirror:
        for _ in range(2):
            await mirror.next()
            await api.next(WATCH)
        async with asyncio.timeout(PATIENCE_S):
            await mirror.warned.wait()

    assert api.count(LIST) == 2


BROKEN = [
    pytest.param(failure(500, "InternalError"), "500 InternalError", id="500"),
    pytest.param(failure(503), "503", id="503"),
    pytest.param(text("<html>bad gateway", 502), "502: <html>bad gateway", id="a-proxys-page"),
    pytest.param(Stream(end="break"), "watch /api/v1/pods", id="reset"),
    pytest.param(
        Stream(line("ERROR", status_body(500, "InternalError"))), "500", id="an-error-event"
    ),
    pytest.param(
        Stream(line("BOOKMARK", {"metadata": {"resourceVersion": "7"}}), b'{"ty', end="break"),
        "watch /api/v1/pods",
        id="half-a-line",
    ),
]


@pytest.mark.parametrize(("broken", "problem"), BROKEN)
async def test_broken_watch_resumes_at_its_version(
    api: FakeApi, client: Client, broken: Answer, problem: str
) -> None:
    """Field case C08: no crash, no relist, and the failure is reported."""
    api.script(LIST, reply(listed("7")))
    api.script(WATCH, broken, Stream(line("ADDED", at_version(A, "8")), end="hang"))
    async with running(client) as mirror:
        found = [await mirror.next(), await mirror.next()]

    assert found == [ev.PodsReplaced(()), ev.PodUpdated(pod("a"))]
    assert api.count(LIST) == 1
    assert [kind for kind, _ in mirror.warnings] == ["pods"]
    assert problem in mirror.warnings[0][1]


async def test_silent_watch_is_broken(api: FakeApi, client: Client) -> None:
    """Field case C08 A: a network that swallows everything gives no error."""
    api.script(LIST, reply(listed("7")))
    api.script(
        WATCH,
        Stream(line("ADDED", at_version(A, "8")), end="hang"),
        Stream(line("ADDED", at_version(B, "9")), end="hang"),
    )
    async with running(client, Limits(0.01, 0.02, silence_max_s=0.5)) as mirror:
        for expected in (ev.PodsReplaced(()), ev.PodUpdated(pod("a")), ev.PodUpdated(pod("b"))):
            assert await mirror.next() == expected

    assert "watch /api/v1/pods" in mirror.warnings[0][1]
    assert api.count(LIST) == 1


async def silent(_: web.Request) -> web.StreamResponse:
    """Accepts the request and sends nothing, not even headers."""
    await asyncio.sleep(3600)
    return web.Response()


async def test_unanswered_watch_times_out_quickly(api: FakeApi, client: Client) -> None:
    """Or a network that heals after a minute would be noticed after the next one."""
    api.script(LIST, reply(listed("7")))
    api.script(WATCH, silent, silent, Stream(line("ADDED", at_version(A, "8")), end="hang"))
    limits = Limits(pause_first_s=1.45, pause_max_s=1.45, silence_max_s=3600, answer_max_s=1.5)
    loop = asyncio.get_running_loop()
    async with running(client, limits) as mirror:
        await mirror.next()
        started = loop.time()
        assert await mirror.next() == ev.PodUpdated(pod("a"))

    assert len(mirror.warnings) == 2
    # Two pauses after two answers that do not come would be 5.9 s; what is between is for a slow
    # machine.
    assert 3.0 <= loop.time() - started < 5.9, "waiting for an answer is the pause"


async def test_health_follows_the_watch(api: FakeApi, client: Client) -> None:
    api.script(LIST, reply(listed("7")))
    api.script(WATCH, failure(503), Stream(line("ADDED", at_version(A, "8")), end="hang"))
    async with running(client, Limits(0.01, 0.02)) as mirror:
        assert not mirror.reflector.is_healthy
        async with asyncio.timeout(PATIENCE_S):
            await mirror.warned.wait()
        assert not mirror.reflector.is_healthy
        await mirror.next()
        await mirror.next()
        assert mirror.reflector.is_healthy


@pytest.mark.contract("S3-B20")
async def test_a_failed_first_list_is_tried_again(api: FakeApi, client: Client) -> None:
    api.script(LIST, failure(500), Stream(b'{"met', end="break"), reply(listed("7")))
    api.script(WATCH, QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced(())

    assert len(mirror.warnings) == 2


async def test_retry_after_delays_the_next_request(api: FakeApi, client: Client) -> None:
    """429 with Retry-After: neither a new list nor an early try."""
    loop = asyncio.get_running_loop()
    api.script(LIST, reply(listed("7")))
    api.script(WATCH, failure(429, "TooManyRequests", retry_after="1"), QUIET)
    async with running(client) as mirror:
        await api.next(WATCH)
        asked = loop.time()
        await api.next(WATCH)

        assert loop.time() - asked >= 0.99
    assert (api.count(LIST), len(mirror.refusals), mirror.warnings) == (1, 1, [])


@pytest.mark.parametrize(
    ("answers", "refused", "warned"),
    [
        pytest.param([failure(429)] * 5, 5, 0, id="while-the-server-fills-its-caches"),
        pytest.param([failure(429)] * 6, 5, 1, id="for-long"),
        pytest.param([failure(500)], 0, 1, id="another-status"),
        pytest.param([Stream(end="break"), failure(429)], 0, 2, id="after-a-watch-was-open"),
    ],
)
async def test_only_refusals_of_a_starting_server_are_no_warnings(
    api: FakeApi, client: Client, answers: list[Answer], refused: int, warned: int
) -> None:
    api.script(LIST, reply(listed("7")))
    api.script(WATCH, *answers, QUIET)
    async with running(client) as mirror:
        for _ in range(len(answers) + 1):
            await api.next(WATCH)

    assert (len(mirror.refusals), len(mirror.warnings)) == (refused, warned)


async def test_backoff_grows_and_resets_after_progress(api: FakeApi, client: Client) -> None:
    """A watch that worked for hours and breaks is not punished for breaks of last week."""
    api.script(LIST, reply(listed("7")))
    works = Stream(line("ADDED", at_version(A, "8")), end="break")
    api.script(WATCH, *([failure(500)] * 5), works, *([works] * 3), QUIET)
    pauses = Limits(pause_first_s=0.02, pause_max_s=9.0)
    loop = asyncio.get_running_loop()
    at = []
    async with running(client, pauses):
        for _ in range(10):
            await api.next(WATCH)
            at.append(loop.time())

    waited = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert waited[4] > 0.02 * 16 * 0.5, "the fifth pause in a row is sixteen times the first"
    assert min(waited[5:]) < 0.1


async def test_immediate_disconnects_do_not_spin(api: FakeApi, client: Client) -> None:
    api.script(LIST, reply(listed("7")))
    api.script(WATCH, Stream())
    loop = asyncio.get_running_loop()
    async with running(client, Limits(pause_first_s=0.05)):
        await api.next(WATCH)
        started = loop.time()
        for _ in range(3):
            await api.next(WATCH)

        assert loop.time() - started >= 0.15


@pytest.mark.contract("S2-B8")
async def test_nodes_are_listed_once_however_many_pods_come(api: FakeApi, client: Client) -> None:
    api.script("GET /api/v1/nodes", reply(listed("7")))
    api.script("WATCH /api/v1/nodes", QUIET)
    api.script(LIST, reply(listed("7")))
    many = [line("ADDED", at_version(pod_json(f"p{n}"), str(8 + n))) for n in range(100)]
    api.script(WATCH, Stream(*many, end="hang"))
    nodes = asyncio.create_task(
        Reflector(client, NODES, lambda _: None, lambda *_: None, random.Random(1), QUICK).run()
    )
    async with running(client) as mirror:
        for _ in range(101):
            await mirror.next()
        await api.next("WATCH /api/v1/nodes")
    nodes.cancel()
    await asyncio.gather(nodes, return_exceptions=True)

    assert (len(api.seen), api.count("GET /api/v1/nodes")) == (4, 1)


async def test_watch_source_without_selector_sends_none(api: FakeApi, client: Client) -> None:
    api.script("GET /api/v1/nodes", reply(listed("7")))
    api.script("WATCH /api/v1/nodes", QUIET)
    task = asyncio.create_task(
        Reflector(client, NODES, lambda _: None, lambda *_: None, random.Random(1), QUICK).run()
    )
    watch = await api.next("WATCH /api/v1/nodes")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert "fieldSelector" not in watch.query
