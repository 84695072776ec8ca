"""The extender answers every question, so that kube-scheduler never stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
import pytest

from tests.differential.live.extender import GIVEN_UP, Extender

POD: Final = {"metadata": {"uid": "u1"}}
FILTER: Final = {"Pod": POD, "NodeNames": ["a", "b"]}
PREEMPT: Final = {"Pod": POD, "NodeNameToMetaVictims": {"a": {"Pods": [], "NumPDBViolations": 0}}}


class Asked:
    """A served extender and a client of it."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.came_in = asyncio.Event()
        self.extender = Extender(self.came_in.set)
        self._session = session
        self.url = url

    async def ask(self, verb: str, arguments: dict[str, Any]) -> Any:
        async with self._session.post(f"{self.url}/{verb}", json=arguments) as response:
            return await response.json()


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    async with aiohttp.ClientSession() as session:
        one = Asked("", session)
        async with one.extender.serving() as one.url:
            yield one


@pytest.mark.parametrize(
    ("verb", "arguments", "refusal"),
    [
        pytest.param("filter", FILTER, {"Error": GIVEN_UP}, id="filter"),
        pytest.param("preempt", PREEMPT, {}, id="preempt"),
    ],
)
async def test_questions_about_a_pod_that_is_given_up_are_refused(
    asked: Asked, verb: str, arguments: dict[str, Any], refusal: dict[str, str]
) -> None:
    open_one = asyncio.create_task(asked.ask(verb, arguments))
    await asked.came_in.wait()
    asked.extender.give_up("u1")
    assert await open_one == refusal
    assert await asked.ask(verb, arguments) == refusal
    assert not asked.extender.questions


async def test_question_waits_for_the_chosen_node(asked: Asked) -> None:
    open_one = asyncio.create_task(asked.ask("filter", FILTER))
    await asked.came_in.wait()
    asked.extender.questions["u1"].choose("b")
    assert await open_one == {"NodeNames": ["b"]}
