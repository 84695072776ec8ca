"""The load generator: what ends it, and what does not."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bench.load import Request, send
from scheduler.watch.client import ApiError, Client

GONE = ApiError(404, 'nodes "n1" not found', "NotFound")
DENIED = ApiError(403, "nodes is forbidden", "Forbidden")


class Api:
    """Responds to each request on n1 with this error."""

    def __init__(self, error: ApiError) -> None:
        self._error = error
        self.done: list[str] = []

    async def request(self, method: str, path: str, *_: Any, **__: Any) -> bytes:
        if path.endswith("/n1"):
            raise self._error
        self.done.append(f"{method} {path}")
        return b"{}"


def requests(method: str) -> list[Request]:
    return [Request(method, "/api/v1/nodes/n1"), Request("POST", "/api/v1/nodes", {})]


async def test_object_that_is_gone_before_its_deletion_is_deleted() -> None:
    api = Api(GONE)

    await send(cast("Client", api), requests("DELETE"), 0)

    assert api.done == ["POST /api/v1/nodes"]


@pytest.mark.parametrize(
    ("method", "error"),
    [
        pytest.param("PATCH", GONE, id="patch-of-an-object-that-is-gone"),
        pytest.param("DELETE", DENIED, id="forbidden"),
    ],
)
async def test_other_error_ends_the_load_generator(method: str, error: ApiError) -> None:
    with pytest.raises(ExceptionGroup) as failed:
        await send(cast("Client", Api(error)), requests(method), 0)

    assert failed.value.exceptions == (error,)
