"""A list in pages is one list, or none."""

from __future__ import annotations

import pytest

from scheduler.state import event as ev
from scheduler.watch import paged_list
from scheduler.watch.client import Client
from scheduler.watch.informers import PODS
from tests.builders import pod, pod_json
from tests.http.fakeapi import Answer, FakeApi, Json, failure, listed, name_of, reply, reset
from tests.http.watch.reflected import LIST, QUIET, WATCH, running

A, B, C = pod_json("a"), pod_json("b"), pod_json("c")
assert PODS.paging is not None
PAGING = PODS.paging


def page(version: str, token: str, *items: Json) -> Answer:
    """A page that another one follows."""
    return reply({"metadata": {"resourceVersion": version, "continue": token}, "items": items})


async def test_pages_become_one_list_of_the_first_version(api: FakeApi, client: Client) -> None:
    api.script(LIST, page("7", "x", A), page("7", "y", B), reply(listed("7", C)))
    api.script(WATCH, QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced((pod("a"), pod("b"), pod("c")))
        watch = await api.next(WATCH)

    lists = [seen.query for seen in api.seen if name_of(seen) == LIST]
    assert [query.get("continue") for query in lists] == [None, "x", "y"]
    assert {query["limit"] for query in lists} == {str(PAGING.size)}
    assert watch.query["resourceVersion"] == "7"


async def test_list_that_expires_between_pages_begins_again(api: FakeApi, client: Client) -> None:
    api.script(LIST, page("7", "x", A), failure(410, "Expired"), reply(listed("9", B)))
    api.script(WATCH, QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced((pod("b"),))
        watch = await api.next(WATCH)

    assert mirror.relists == [("pods", "expired")]
    assert watch.query["resourceVersion"] == "9"


async def test_list_that_breaks_between_pages_delivers_nothing(
    api: FakeApi, client: Client
) -> None:
    # The client itself repeats a GET once on a connection that was used before.
    api.script(LIST, page("7", "x", A), reset, reset, reply(listed("9", B)))
    api.script(WATCH, QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced((pod("b"),))


async def test_list_without_an_end_is_no_list(
    api: FakeApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paged_list, "PAGES_MAX", 3)
    api.script(LIST, *(page("7", "x", A) for _ in range(4)), reply(listed("9", B)))
    api.script(WATCH, QUIET)
    async with running(client) as mirror:
        assert await mirror.next() == ev.PodsReplaced((pod("b"),))
    assert "more than 3 pages" in mirror.warnings[0][1]
