"""Claims are written only in the term of the decision: a process may lead again later."""

from __future__ import annotations

import asyncio

from aiohttp import web

from scheduler.model.actions import ReleaseClaims
from scheduler.state.event import ClaimsReleased, ClaimsReserved
from tests.http.bind.test_claim_writer import (
    ALLOCATE,
    CLAIM,
    REF,
    RESERVE,
    STATUS,
    WriterWorld,
    allocated,
    protected,
    reserve,
    world,
)
from tests.http.fakeapi import FakeApi, reply
from tests.patience import PATIENCE_S

__all__ = ["world"]


async def test_write_that_was_decided_in_an_earlier_term_is_not_sent(
    api: FakeApi, world: WriterWorld
) -> None:
    """Another leader may have reserved the claim for the pod, and bound it, in between."""
    arrived, regained = asyncio.Event(), asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await regained.wait()
        return await reply(allocated("p"))(request)

    api.script(STATUS, late)
    world.writer.send(reserve(RESERVE))
    world.writer.send(ReleaseClaims("team-p", (REF,)))
    async with asyncio.timeout(PATIENCE_S):
        await arrived.wait()
    world.leader.epoch = 9
    regained.set()

    assert isinstance(await world.heard.next(), ClaimsReserved)
    assert await world.heard.next() == ClaimsReleased("team-p")
    assert api.count(STATUS) == 1


async def test_reservation_does_not_go_on_in_another_term(api: FakeApi, world: WriterWorld) -> None:
    async def regained(request: web.Request) -> web.StreamResponse:
        world.leader.epoch = 9
        return await reply(protected())(request)

    api.script(CLAIM, regained)

    assert await world.answer_to(reserve(ALLOCATE)) == ClaimsReserved("team-p", 1, is_unsent=True)
    assert api.count(STATUS) == 0
