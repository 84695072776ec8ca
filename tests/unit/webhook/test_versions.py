"""A webhook and a scheduler of different versions: each uses the fields that both know.

The recorded messages are those of commit 8db2d48, which had no version.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scheduler.model.admission import (
    VERSION,
    AdmissionDecision,
    AdmissionQuery,
    NodeAssignment,
    OtherVersions,
    ResourceRewrite,
)
from scheduler.model.mig.tier_nodes import TierNodes
from tests.patience import PATIENCE_S
from tests.unit.webhook.scheduler import SchedulerEnd
from webhook.scheduler_client import SchedulerClient

#: The answer of a scheduler of 8db2d48.
OLD_ANSWER = (
    b'{"rewrites":[{"container":"app","from":"nvidia.com/mig-2g.20gb","to":"nvidia.com/mig-1g.10gb"'
    b',"init":false}],"denied":null,"reservation":"r-0123456789abcdef","annotate":true,'
    b'"knownReservation":false,"nodeKinds":{"node1":{"node":"n1","kind":"numbered"}},'
    b'"warnings":["w"],"move":null,"where":{"labels":[["gpu-type","a100"]],"memoryMib":15000}}'
)
NEWER_ANSWER = b'{"version":7,"reservation":"r-0123456789abcdef","ofTomorrow":{"a":[1]}}'
QUERY = AdmissionQuery(uid="u", dry_run=False, namespace="n", scope="ours", pod=msgspec.Raw(b"{}"))


class OldQuery(msgspec.Struct, kw_only=True, rename="camel"):
    """The fields that a scheduler of 8db2d48 reads of a query, all of them required."""

    uid: str
    dry_run: bool
    namespace: str
    scope: str
    pod: dict[str, Any]


@pytest.fixture
def socket() -> Iterator[Path]:
    with TemporaryDirectory(prefix="link") as folder:
        yield Path(folder) / "s"


async def asked(socket: Path, answer: bytes, times: int = 1) -> tuple[Any, list[Any], list[Any]]:
    """The last answer that the webhook reads, its log lines and its queries."""

    async def reply(_question: Any) -> web.Response:
        return web.Response(body=answer, content_type="application/json")

    link = SchedulerClient(socket, budget_s=PATIENCE_S)
    async with SchedulerEnd(socket, reply) as end:
        with capture_logs() as lines:
            for _ in range(times):
                read = await link.ask(QUERY)
    await link.close()
    return read, lines, end.questions


async def test_answer_of_an_older_scheduler_is_read(socket: Path) -> None:
    answer, lines, _ = await asked(socket, OLD_ANSWER, times=3)

    assert answer == AdmissionDecision(
        rewrites=(
            ResourceRewrite(
                container="app", source="nvidia.com/mig-2g.20gb", target="nvidia.com/mig-1g.10gb"
            ),
        ),
        reservation="r-0123456789abcdef",
        node_kinds={"node1": NodeAssignment("n1", "numbered")},
        warnings=("w",),
        where=TierNodes((("gpu-type", "a100"),), 15000),
        may_map=True,
        version=1,
    )
    assert lines == [
        {"event": "scheduler of another version", "version": 1, "own": 3, "log_level": "info"}
    ]


async def test_answer_of_a_newer_scheduler_is_read_without_its_new_fields(socket: Path) -> None:
    answer, lines, _ = await asked(socket, NEWER_ANSWER, times=2)

    assert answer == AdmissionDecision(reservation="r-0123456789abcdef", version=7)
    assert [line["version"] for line in lines] == [7]


async def test_same_version_is_not_logged(socket: Path) -> None:
    current = msgspec.json.encode(AdmissionDecision(version=VERSION))

    assert (await asked(socket, current))[1] == []


async def test_query_has_the_version_and_what_an_older_scheduler_reads(socket: Path) -> None:
    [query] = (await asked(socket, OLD_ANSWER))[2]

    assert query["version"] == VERSION == 3
    msgspec.convert(query, OldQuery)


def test_answer_has_the_fields_that_an_older_webhook_reads() -> None:
    answer = msgspec.to_builtins(AdmissionDecision(version=VERSION))

    assert set(msgspec.json.decode(OLD_ANSWER)) <= set(answer)


def test_each_other_version_is_news_once_and_only_a_few_are() -> None:
    others = OtherVersions()

    assert [others.is_news(version) for version in (1, VERSION, 1, 9, 9)] == [
        *(True, False, False),
        *(True, False),
    ]
    assert sum(others.is_news(version) for version in range(100, 200)) == others.LOGGED_MAX - 2
