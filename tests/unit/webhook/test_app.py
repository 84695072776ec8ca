"""The real server: TLS, many clients, a silent one, and the shutdown."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.httpserver.limits import REVIEWS
from scheduler.model.admission import AdmissionDecision
from tests.patience import PATIENCE_S
from tests.unit.webhook.pods import MIG_1G, MIG_2G, container, pod, rewrite
from tests.unit.webhook.reviews import body
from tests.unit.webhook.scheduler import SchedulerEnd, says
from tests.unit.webhook.serving import (
    BUNDLE,
    JSON,
    MAPPED,
    MIG_POD,
    patch_of,
    post,
    serving,
)


@pytest.mark.contract("S0-18", "S2-13", "S2-15")
async def test_a_review_over_tls_is_answered_and_the_seeds_lines_are_logged(folder: Path) -> None:
    """Path, port line, ready line, then one line per step of the review."""
    with capture_logs() as lines:
        async with serving(folder) as (server, session):
            response = await post(session, body(object=MAPPED))
            with_query = await post(session, body(object=MAPPED), "/mutate?timeout=2s")

    assert patch_of(response) == [
        {
            "op": "add",
            "path": "/spec/containers/0/env",
            "value": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}],
        }
    ]
    assert with_query == response
    events = [line["event"] for line in lines if line["log_level"] != "warning"]
    assert events[:4] == [
        f"Starting GPU allocation webhook server on port {server.port}",
        "Webhook server ready",
        "Reviewing pod: team-a/w-0",
        "Injecting CUDA_VISIBLE_DEVICES=0,1 for pod w-0 (index 0)",
    ]


@pytest.mark.parametrize(
    ("asked", "said", "facts"),
    [
        pytest.param(
            MAPPED, AdmissionDecision(), {"pod": "team-a/w-0", "result": "patched"}, id="mapped"
        ),
        pytest.param(
            pod(container(limits={MIG_2G: "1"}), name="", owner="ReplicaSet"),
            AdmissionDecision(rewrites=(rewrite(),), reservation="r-1"),
            {"pod": "team-a/w-6bd69b846c-*", "result": "patched", "reservation": "r-1"},
            id="generated-name",
        ),
        pytest.param(
            MIG_POD,
            AdmissionDecision(denied="no tier is left"),
            {"pod": "team-a/w-0", "result": "denied", "reason": "no tier is left"},
            id="denied",
        ),
        pytest.param(
            pod(), AdmissionDecision(), {"pod": "team-a/w-0", "result": "unchanged"}, id="plain"
        ),
    ],
)
async def test_an_admitted_pod_has_one_info_line(
    folder: Path, asked: Any, said: AdmissionDecision, facts: dict[str, str]
) -> None:
    """With its keys; what the webhook does with the pod has the level detail."""
    with capture_logs() as lines:
        async with SchedulerEnd(folder / "s", says(said)), serving(folder) as (_, session):
            await post(session, body(object=asked))

    [line] = [one for one in lines if one["event"].startswith("Reviewing pod: ")]
    steps = [one for one in lines if one.get("detail")]
    assert {key: line[key] for key in line if key not in ("event", "log_level")} == facts
    assert [one for one in lines if one.get("pod")] == [line, *steps]
    assert {one["log_level"] for one in steps} <= {"debug"}
    assert line["log_level"] == "info"


@pytest.mark.contract("S2-13", "S3-26")
@pytest.mark.parametrize(
    "path", ["/", "/mutate/", "/mutate/other", "/mutat", "/mutate--v1-pod", "/validate"]
)
async def test_a_review_that_is_sent_to_another_path_is_answered_with_404(
    folder: Path, path: str
) -> None:
    async with (
        serving(folder) as (_, session),
        session.post(path, data=body(object=MAPPED), headers=JSON) as answer,
    ):
        assert answer.status == 404
        assert "response" not in await answer.text()


@pytest.mark.contract("S2-B3")
async def test_silent_clients_block_no_other_client(folder: Path) -> None:
    """Neither before, nor in the middle of a handshake, nor in the middle of a request."""
    async with serving(folder) as (server, session):
        trusted = ssl.create_default_context(cadata=BUNDLE.ca_pem.decode())
        idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(20)]
        half = await asyncio.open_connection("127.0.0.1", server.port)
        half[1].write(b"\x16\x03\x01\x02\x00\x01")
        slow = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusted)
        slow[1].write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{")
        async with asyncio.timeout(PATIENCE_S):
            response = await post(session, body(object=MAPPED))
        for _, writer in [*idle, half, slow]:
            writer.transport.abort()

    assert response["allowed"]
    assert "patch" in response


async def test_reviews_at_once_do_not_wait_for_each_other(folder: Path) -> None:
    """A hundred pods while the scheduler takes its time for each."""
    answer = says(AdmissionDecision(rewrites=(rewrite(),)))
    together = asyncio.Event()

    async def after_all_asked(question: dict[str, Any]) -> Any:
        if len(end.questions) == 100:
            together.set()
        await together.wait()
        return await answer(question)

    async with SchedulerEnd(folder / "s", after_all_asked) as end, serving(folder) as (_, session):
        responses = await asyncio.gather(*(post(session, body(object=MIG_POD)) for _ in range(100)))

    assert all("patch" in response for response in responses)


@pytest.mark.contract("S0-18")
async def test_the_fallback_path_serves_pods_of_other_schedulers(folder: Path) -> None:
    """Each path has its own scope; dry runs are marked."""
    foreign = pod(container(limits={MIG_2G: "1"}), schedulerName="default-scheduler")
    reply = says(AdmissionDecision(rewrites=(rewrite(),), reservation="r-1"))
    async with SchedulerEnd(folder / "s", reply) as end, serving(folder) as (_, session):
        ours = await post(session, body(object=MIG_POD, dryRun=True))
        other = await post(session, body(object=foreign), "/mutate/fallback")
        none = await post(session, body(object=foreign), "/mutate")

    added = {op["path"]: op.get("value") for op in patch_of(other)}
    assert added["/spec/containers/0/resources/limits/nvidia.com~1mig-1g.10gb"] == "1"
    assert MIG_1G in json.dumps(patch_of(ours)).replace("~1", "/")
    assert "patch" not in none
    assert [(q["scope"], q["dryRun"], q["namespace"], q["uid"]) for q in end.questions] == [
        ("ours", True, "team-a", "705ab4f5"),
        ("any", False, "team-a", "705ab4f5"),
    ]
    assert end.questions[1]["pod"] == foreign


@pytest.mark.contract("S0-B4")
async def test_without_the_scheduler_a_map_still_gets_its_literal(folder: Path) -> None:
    """And a MIG request is admitted as it is; both are counted as unanswered."""
    async with serving(folder) as (_, session):
        mapped = await post(session, body(object=MAPPED))
        mig = await post(session, body(object=MIG_POD))
        async with session.get("/metrics") as page:
            metrics = await page.text()

    assert "patch" in mapped
    assert mig == {"uid": "705ab4f5", "allowed": True}
    assert "gpu_scheduler_webhook_unanswered_queries_total 2.0" in metrics


@pytest.mark.contract("S0-B8", "S2-B10")
@pytest.mark.parametrize(
    ("content", "headers", "status", "line"),
    [
        pytest.param(b"no", JSON, 400, "not an AdmissionReview: ", id="not-json"),
        pytest.param(b"", JSON, 400, "not an AdmissionReview: ", id="empty"),
        pytest.param(
            body(), {"Content-Type": "text/plain"}, 415, "expected Content-Type: ", id="type"
        ),
        pytest.param(b" " * (REVIEWS.body + 1), JSON, 413, "Maximum request body", id="too-long"),
    ],
)
async def test_non_review_body_gets_a_status_and_one_line(
    content: bytes, headers: dict[str, str], status: int, line: str, folder: Path
) -> None:
    """No stack trace, no empty 200."""
    async with (
        serving(folder) as (_, session),
        session.post("/mutate", data=io.BytesIO(content), headers=headers) as answer,
    ):
        text = await answer.text()

    assert answer.status == status
    assert text.startswith(line)
    assert text.strip("\n").count("\n") == 0


async def test_a_body_just_below_the_limit_is_read(folder: Path) -> None:
    """The API server's own limit for an object is lower."""
    filler = "x" * (REVIEWS.body - 2000)
    async with serving(folder) as (_, session):
        response = await post(session, body(object=pod(filler=filler)))

    assert response["allowed"]


async def test_health_readiness_and_metrics_are_on_the_same_port(folder: Path) -> None:
    """Every label of a closed list, whatever is sent."""
    async with serving(folder) as (_, session):
        await post(session, body(object=MAPPED))
        await post(session, body(operation="DELETE", object=None))
        await post(session, body(object=pod(map_text="x")))
        await post(session, body(object=pod()))
        async with session.post("/mutate/fallback", data=b"x", headers=JSON):
            pass
        pages = {}
        for path in ("/healthz", "/readyz", "/metrics", "/nothing"):
            async with session.get(path) as answer:
                pages[path] = (answer.status, await answer.text())

    assert pages["/healthz"] == pages["/readyz"] == (200, "ok\n")
    assert pages["/nothing"][0] == 404
    samples = dict(
        line.rsplit(" ", 1) for line in pages["/metrics"][1].splitlines() if line[0] != "#"
    )
    counted = {key: value for key, value in samples.items() if "_reviews_total" in key}
    name = "gpu_scheduler_webhook_reviews_total"
    assert counted == {
        f'{name}{{path="{path}",result="{result}"}}': "1.0"
        for path, result in [
            ("/mutate", "patched"),
            ("/mutate", "ignored"),
            ("/mutate", "denied"),
            ("/mutate", "unchanged"),
            ("/mutate/fallback", "malformed"),
        ]
    }
    expires = float(samples["gpu_scheduler_webhook_certificate_expiration_timestamp_seconds"])
    assert 0 < expires - time.time() < 86401
