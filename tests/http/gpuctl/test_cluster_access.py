"""How gpuctl reaches a pod, the leader and its decisions API, and its messages on failure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpuctl import cluster_access
from gpuctl.cluster_access import Access
from gpuctl.input_error import NotReached
from gpuctl.pods.pod_facts import read_pod_facts
from scheduler.watch.client import Client
from tests.builders import pod_json
from tests.http.fakeapi import FakeApi, failure, reply, reset

POD = "GET /api/v1/namespaces/team/pods/a"
EVENTS = "GET /api/v1/namespaces/team/events"
LEASE = "GET /apis/coordination.k8s.io/v1/namespaces/gpu-scheduler-system/leases/gpu-scheduler"
REVIEW = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SAID = """#!/bin/sh
echo $$ > "$HERE/pid"
echo "$@" > "$HERE/words"
echo "Forwarding from 127.0.0.1:34567 -> 8090"
echo "Forwarding from [::1]:34567 -> 8090"
exec sleep 60
"""
REFUSED = """#!/bin/sh
echo 'error: something' >&2
echo 'Error from server (NotFound): pods "x" not found' >&2
exit 1
"""
SILENT = """#!/bin/sh
exec sleep 60
"""


def event(reason: str, moment: str, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "e", "annotations": {"gpu-scheduler.io/decision": "ab-1"}},
        "reason": reason,
        "message": f"{reason} \n",
        "type": "Warning",
        "eventTime": moment,
        "reportingComponent": "gpu-scheduler",
        **more,
    }


async def test_a_pods_events_come_in_order_and_only_of_this_pod(
    api: FakeApi, client: Client
) -> None:
    """One of the same name that was there before has another uid."""
    series = {"count": 7, "lastObservedTime": "2026-11-27T12:00:00.000000Z"}
    old = {"eventTime": None, "lastTimestamp": "2026-11-27T09:00:00Z", "count": 3}
    api.script(POD, reply(pod_json("a", node="n1")))
    api.script(
        EVENTS,
        reply(
            {
                "items": [
                    event("Repeated", "2026-11-27T08:00:00.000000Z", series=series),
                    event("Late", "2026-11-27T11:00:00.000000Z"),
                    {**event("Old", ""), **old, "source": {"component": "kubelet"}},
                ]
            }
        ),
    )

    witness = await read_pod_facts(client, "team", "a")

    told = [(one.reason, one.count, one.decision) for one in witness.events]
    assert told == [("Old", 3, "ab-1"), ("Late", 1, "ab-1"), ("Repeated", 7, "ab-1")]
    assert witness.events[1].text == "Late"
    [asked] = [one for one in api.seen if one.path.endswith("/events")]
    assert asked.query["fieldSelector"] == "involvedObject.name=a,involvedObject.uid=team-a"


async def test_forbidden_events_are_noted(api: FakeApi, client: Client) -> None:
    api.script(POD, reply(pod_json("a")))
    api.script(EVENTS, failure(403, "Forbidden", "events is forbidden"))

    witness = await read_pod_facts(client, "team", "a")

    assert witness.events == ()
    assert witness.remarks == ("events cannot be read: 403 Forbidden: events is forbidden",)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        pytest.param(failure(404, "NotFound"), "pod a not found in namespace team", id="no"),
        pytest.param(failure(403, "Forbidden", "you may not"), "you may not", id="forbidden"),
        pytest.param(reset, "the API server: GET", id="unreachable"),
        pytest.param(reply({"metadata": {"name": 5}}), "the API server: ", id="nonsense"),
    ],
)
async def test_unreadable_pod_is_one_sentence(
    api: FakeApi, client: Client, answer: Any, result: str
) -> None:
    api.script(POD, answer)
    with pytest.raises(NotReached) as caught:
        await read_pod_facts(client, "team", "a")

    assert result in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(
            reply({"metadata": {}, "spec": {"holderIdentity": "gpu-scheduler-7d9_x2_ab-12"}}),
            "gpu-scheduler-7d9_x2",
            id="the-part-before-the-last-underscore",
        ),
        pytest.param(reply({"metadata": {}, "spec": {"holderIdentity": ""}}), None, id="no-holder"),
        pytest.param(reply({"metadata": {}, "spec": {}}), None, id="never-held"),
        pytest.param(failure(403, "Forbidden"), None, id="no-right"),
        pytest.param(failure(404, "NotFound"), None, id="no-lease"),
        pytest.param(reply({"spec": 1}), None, id="nonsense"),
    ],
)
async def test_the_leader_is_the_holder_of_the_lease(
    api: FakeApi, client: Client, answer: Any, expected: str | None
) -> None:
    api.script(LEASE, answer)

    assert await cluster_access.leader_pod(client, Access()) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(reply({"status": {"allowed": True}}, 201), True, id="yes"),
        pytest.param(reply({"status": {"allowed": False}}, 201), False, id="no"),
        pytest.param(failure(403, "Forbidden"), False, id="may-not-even-ask"),
        pytest.param(reply({}, 201), False, id="nonsense"),
    ],
)
async def test_the_right_to_forward_is_asked_for_before_anything_is_started(
    api: FakeApi, client: Client, answer: Any, expected: bool
) -> None:
    api.script(REVIEW, answer)

    assert await cluster_access.may_forward(client, Access()) is expected

    [asked] = api.seen
    assert asked.json["spec"]["resourceAttributes"] == {
        "namespace": "gpu-scheduler-system",
        "verb": "create",
        "resource": "pods",
        "subresource": "portforward",
    }


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        pytest.param(failure(404, "", "nothing is known about a/b"), "nothing is known", id="own"),
        pytest.param(reset, "the decisions API does not answer", id="unreachable"),
        pytest.param(failure(403, "", ""), "the decisions API returned 403", id="speechless"),
    ],
)
async def test_decisions_api_error_is_quoted(api: FakeApi, answer: Any, result: str) -> None:
    api.script("GET /decisions/a/b", answer)
    async with cluster_access.server(api.url) as client:
        with pytest.raises(NotReached) as caught:
            await cluster_access.ask(client, "/decisions/a/b", {}, 5.0)

    assert result in str(caught.value)


async def test_busy_decisions_api_is_asked_again_after_the_time_it_names(
    api: FakeApi, client: Client
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    busy = failure(503, "", "8 wait; ask again after 2 s", retry_after="2")
    api.script("GET /decisions/a/b", busy, busy, reply({"kind": "PodDecisions"}))
    async with cluster_access.server(api.url) as decisions:
        content = await cluster_access.ask(decisions, "/decisions/a/b", {}, 5.0, pause)
        api.script("GET /decisions/a/b", busy)
        with pytest.raises(NotReached, match="8 wait; ask again after 2 s"):
            await cluster_access.ask(decisions, "/decisions/a/b", {}, 5.0, pause)

    assert content == b'{"kind": "PodDecisions"}'
    assert pauses == [2.0] * (2 + cluster_access.ASKED_MAX - 1)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A program of that name, which does what a test wants."""

    def make(script: str) -> None:
        program = tmp_path / "kubectl"
        program.write_text(script)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setenv("HERE", str(tmp_path))

    return make


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_kubectl_forwards_as_long_as_it_is_needed_and_no_longer(
    tmp_path: Path, kubectl: Any
) -> None:
    kubectl(SAID)
    async with cluster_access.forwarded(Access(context="prod"), "leader") as url:
        pid = int((tmp_path / "pid").read_text())
        assert url == "http://127.0.0.1:34567"
        assert is_alive(pid)

    assert not is_alive(pid)
    words = (tmp_path / "words").read_text().strip()
    assert words == (
        "--context prod --namespace gpu-scheduler-system port-forward pod/leader :8090"
    )


@pytest.mark.parametrize(
    ("script", "result"),
    [
        pytest.param(REFUSED, 'Error from server (NotFound): pods "x" not found', id="refused"),
        pytest.param("#!/bin/sh\nexit 0\n", "it ended", id="without-a-word"),
    ],
)
async def test_failed_forward_shows_the_last_kubectl_line(
    kubectl: Any, script: str, result: str
) -> None:
    kubectl(script)
    with pytest.raises(NotReached) as caught:
        async with cluster_access.forwarded(Access(), "leader"):
            pytest.fail("nothing is forwarded")

    assert str(caught.value) == f"kubectl port-forward: {result}"


async def test_leader_outside_of_the_cluster_needs_its_url(kubectl: Any) -> None:
    kubectl(REFUSED)
    with pytest.raises(cluster_access.LeaderIsNoPod) as caught:
        async with cluster_access.forwarded(Access(), "x"):
            pytest.fail("nothing is forwarded")

    assert str(caught.value) == (
        "the leader x is not a pod of namespace gpu-scheduler-system; pass the URL of its decisions"
        " API with --server"
    )


async def test_stalled_forward_times_out(kubectl: Any) -> None:
    kubectl(SILENT)
    with pytest.raises(NotReached, match=r"no answer within 0\.2 s"):
        async with cluster_access.forwarded(Access(), "leader", timeout_s=0.2):
            pytest.fail("nothing is forwarded")


async def test_without_kubectl_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(NotReached, match="kubectl is not installed"):
        async with cluster_access.forwarded(Access(), "leader"):
            pytest.fail("nothing is forwarded")
