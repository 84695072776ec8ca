"""How a run ends: stopped, refused, without its API server. Nothing of it stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpuctl.doctor.finding import Level
from gpuctl.verify.hosts import Raw
from gpuctl.verify.result import Result
from gpuctl.verify.run import Stop, verify
from scheduler.watch.client import ApiError, Unreachable
from tests.unit.gpuctl.verify.small_api import (
    NAMESPACE,
    Api,
    gpu_node,
    options,
    placed,
    run,
    waits,
)


async def test_interrupted_run_leaves_nothing() -> None:
    api = Api(waits, gpu_node())
    task = asyncio.create_task(run(api, options(timeout_s=30.0)))
    await api.has_pods.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert (api.namespaces, api.pods) == (set(), {})


async def test_refused_namespace_leaves_no_priority_class() -> None:
    api = Api(placed, gpu_node())
    api.refuses_namespaces = True

    with pytest.raises(ApiError, match="forbidden"):
        await run(api, options())

    assert api.classes == {}


class PriorityClassTaken(Api):
    """Another run has this name."""

    def _answer(self, method: str, parts: list[str], content: Raw) -> Raw:
        if (method, parts[-1]) == ("POST", "priorityclasses"):
            raise ApiError(409, "already exists")
        return super()._answer(method, parts, content)


async def test_objects_of_another_run_are_never_removed() -> None:
    api = PriorityClassTaken(placed, gpu_node())
    api.classes, api.namespaces = {NAMESPACE: {}}, {NAMESPACE}

    with pytest.raises(ApiError, match="already exists"):
        await run(api, options())

    assert (set(api.classes), api.namespaces) == ({NAMESPACE}, {NAMESPACE})


class LostAnswer(Api):
    """The namespace is created, and the answer is lost."""

    def _answer(self, method: str, parts: list[str], content: Raw) -> Raw:
        answer = super()._answer(method, parts, content)
        if (method, parts) == ("POST", ["api", "v1", "namespaces"]):
            raise Unreachable("connection reset")
        return answer


async def test_namespace_whose_creation_got_no_answer_is_removed() -> None:
    api = LostAnswer(placed, gpu_node())

    with pytest.raises(Unreachable):
        await run(api, options())

    assert (api.namespaces, api.classes) == (set(), {})


async def test_refused_deletion_leaves_only_what_it_names() -> None:
    api = Api(placed, gpu_node())
    api.refuses_deletions = True
    found = await run(api, options(timeout_s=0.3))

    assert api.classes == {}
    assert found["cleanup"].advice == f"kubectl delete namespace/{NAMESPACE}"
    assert found["cleanup"].level is Level.FAIL


async def test_stopped_run_returns_what_it_found_and_leaves_nothing() -> None:
    api = Api(waits, gpu_node())
    stop = Stop()
    task = asyncio.create_task(verify(api, options(timeout_s=30.0), print, stop=stop))  # type: ignore[arg-type] # our own API server
    await api.has_pods.wait()
    stop.set("signal SIGTERM")
    result = await task

    assert result.ended_by == "signal SIGTERM"
    assert [one.about for one in result.findings][:2] == ["install", "plugin"]
    assert result.findings[-1].about == "cleanup"
    assert (api.namespaces, api.pods, api.classes) == (set(), {}, {})


async def test_run_stopped_at_its_first_request_leaves_nothing() -> None:
    api, stop = Api(waits, gpu_node()), Stop()
    api.on_namespace = lambda: stop.set("signal SIGINT")
    result = await verify(api, options(), print, stop=stop)  # type: ignore[arg-type] # our own API server

    assert (result.ended_by, api.namespaces, api.classes) == ("signal SIGINT", set(), {})


class Away(Api):
    """The API server goes away at the first pod, for some requests."""

    def __init__(self, returns: bool) -> None:
        super().__init__(placed, gpu_node())
        self._left = 3 if returns else 10_000

    async def request(self, method: str, path: str, *args: Any, **more: Any) -> bytes:
        self.is_away = bool(self.created) and self._left > 0
        if self.is_away:
            self._left -= 1
        return await super().request(method, path, *args, **more)


async def test_connection_that_breaks_keeps_the_findings_and_cleans_up() -> None:
    api = Away(returns=True)
    result = await _result(api, 3.0)

    assert result.ended_by.startswith("the API server does not answer: ")
    assert [one.about for one in result.findings] == [
        *("install", "plugin", "resources", "priorities", "place", "cleanup")
    ]
    assert result.findings[-1].level is Level.OK
    assert (api.namespaces, api.pods, api.classes) == (set(), {}, {})


async def test_what_stays_behind_a_dead_server_is_named() -> None:
    result = await _result(Away(returns=False), 0.3)

    left = f"priorityclass/{NAMESPACE} namespace/{NAMESPACE}"
    assert result.findings[-1].advice == f"kubectl delete {left}"


async def _result(api: Api, timeout_s: float) -> Result:
    return await verify(api, options(timeout_s), print)  # type: ignore[arg-type] # our own API server
