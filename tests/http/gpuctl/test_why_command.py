"""``gpuctl why`` and ``snapshot``, from the first word to the exit status."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gpuctl.commands.why import GROUPS_ASKED_MAX
from scheduler.decide.explain import Outcome, Refusal
from scheduler.report.decisions.api_types import API_VERSION, Decided, PodAnswer, Waiting
from tests.builders import pod_json
from tests.http.fakeapi import FakeApi, failure, reply
from tests.http.gpuctl.test_cluster_access import EVENTS, LEASE, POD, REVIEW
from tests.unit.gpuctl.cli import CommandOutput, gpuctl

PODS = "GET /api/v1/namespaces/team/pods"
DECISIONS = "GET /decisions/team/a"
HOLDER = {"metadata": {}, "spec": {"holderIdentity": "leader-1_abc"}}
SENTENCE = "0/1 nodes are available: 1 Too many pods."
REFUSED = Outcome(
    message=SENTENCE,
    total=1,
    refusals=(
        Refusal(node="n1", stage="NodeResourcesFit", code="TOO_MANY_PODS", text="Too many pods"),
    ),
)
WAITS = {"type": "PodScheduled", "status": "False", "reason": "U", "message": SENTENCE}


def told(outcome: Outcome, *, waits: bool, leads: bool = True) -> Any:
    """The decisions API's answer."""
    decided = Decided(
        id="ab-1",
        time="2026-11-27T11:00:00Z",
        namespace="team",
        pod="a",
        uid="u",
        attempt=1,
        generation=1,
        outcome=outcome,
    )
    answer = PodAnswer(
        api_version=API_VERSION,
        namespace="team",
        pod="a",
        leads=leads,
        waiting=Waiting(place="unschedulable", attempts=1, waits_s=5.0) if waits else None,
        now=outcome if waits else None,
        decisions=(decided,),
    )
    return reply(json.loads(msgspec.json.encode(answer)))


class User:
    """A user with a kubeconfig for the fake API server."""

    def __init__(self, api: FakeApi, folder: Path) -> None:
        self.api = api
        self.kubeconfig = folder / "config"
        context = {"cluster": "c", "user": "u", "namespace": "team"}
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "current-context": "here",
                    "contexts": [
                        {"name": "here", "context": context},
                        {"name": "other", "context": {**context, "namespace": "elsewhere"}},
                    ],
                    "clusters": [{"name": "c", "cluster": {"server": api.url}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                }
            )
        )

    async def types(self, *words: str) -> CommandOutput:
        """Run a command while the servers of this test answer."""
        return await asyncio.to_thread(gpuctl, *words, "--kubeconfig", str(self.kubeconfig))


@pytest.fixture
def person(api: FakeApi, tmp_path: Path) -> User:
    api.script(EVENTS, reply({"items": []}))
    return User(api, tmp_path)


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        pytest.param({"node": "n1"}, 0, id="placed"),
        pytest.param({"node": "n1", "phase": "Failed"}, 0, id="ended"),
        pytest.param({"status": {"conditions": [WAITS]}}, 2, id="refused"),
        pytest.param({}, 2, id="not-decided-yet"),
        pytest.param({"gates": ["x.example/hold"]}, 2, id="gated"),
    ],
)
async def test_the_exit_status_says_whether_it_waits(person: User, pod: Any, status: int) -> None:
    person.api.script(POD, reply(pod_json("a", **pod)))

    result = await person.types("why", "a")

    assert result.status == status, result.err
    assert result.out.startswith("team/a ")


@pytest.mark.parametrize(
    ("words", "space"),
    [
        pytest.param((), "team", id="the-current-contexts"),
        pytest.param(("--context", "other"), "elsewhere", id="another-contexts"),
        pytest.param(("-n", "named"), "named", id="by-option"),
    ],
)
async def test_the_namespace_is_the_one_that_kubectl_would_take(
    person: User, words: tuple[str, ...], space: str
) -> None:
    result = await person.types("why", "a", *words)

    assert result.status == 1
    assert f"/api/v1/namespaces/{space}/pods/a" in [seen.path for seen in person.api.seen]


async def test_a_pod_may_be_named_with_its_namespace(person: User) -> None:
    await person.types("why", "named/a")

    assert "/api/v1/namespaces/named/pods/a" in [seen.path for seen in person.api.seen]


async def test_deleted_pod_is_explained_by_a_replica_that_remembers_it(person: User) -> None:
    person.api.script(POD, failure(404, "NotFound", 'pods "a" not found'))
    person.api.script(DECISIONS, told(Outcome(node="n1"), waits=False))

    result = await person.types("why", "a", "-n", "team", "--server", person.api.url)

    assert result.status == 0
    assert result.out.startswith("team/a does not wait")
    assert "on n1" in result.out
    assert "the pod itself cannot be read: pod a not found in namespace team" in result.out


async def test_unknown_pod_shows_both_answers(person: User) -> None:
    person.api.script(POD, failure(404, "NotFound", 'pods "a" not found'))
    person.api.script(DECISIONS, failure(404, "", "nothing is known about team/a"))

    result = await person.types("why", "a", "-n", "team", "--server", person.api.url)

    assert result.status == 1
    assert result.err == (
        "gpuctl why: pod a not found in namespace team; nothing is known about team/a\n"
    )


async def test_answer_of_a_standby_is_marked(person: User) -> None:
    person.api.script(POD, reply(pod_json("a", status={"conditions": [WAITS]})))
    person.api.script(DECISIONS, told(REFUSED, waits=True, leads=False))

    result = await person.types("why", "a", "--server", person.api.url)

    assert result.status == 2
    assert "this replica is not the leader" in result.out


async def test_unreachable_server_leaves_the_pod_status(person: User) -> None:
    person.api.script(POD, reply(pod_json("a", status={"conditions": [WAITS]})))
    person.api.script(DECISIONS, reply({"hello": 1}))

    result = await person.types("why", "a", "--server", person.api.url)

    assert result.status == 2
    assert "TOO_MANY_PODS" in result.out
    assert "is no decisions API that gpuctl understands" in result.out


async def test_without_a_name_every_waiting_pod_is_listed(person: User) -> None:
    items = [pod_json(name, status={"conditions": [WAITS]}) for name in "ab"]
    person.api.script(
        PODS,
        reply({"metadata": {"resourceVersion": "1"}, "items": [*items, pod_json("c", node="n1")]}),
    )
    person.api.script(DECISIONS, told(REFUSED, waits=True))

    result = await person.types("why", "--server", person.api.url)

    assert result.status == 2, result.err
    assert result.out.startswith("2 pods: Too many pods\n")
    assert "team/a" in result.out
    assert "team/b" in result.out
    assert "team/c" not in result.out


async def test_groups_that_the_leader_is_not_asked_about_are_counted(person: User) -> None:
    groups = [
        pod_json(f"p{at}", status={"conditions": [{**WAITS, "message": f"other reason {word}"}]})
        for at, word in enumerate("abcdefghij")
    ]
    person.api.script(PODS, reply({"metadata": {"resourceVersion": "1"}, "items": groups}))

    result = await person.types("why", "--server", person.api.url)

    asked = [seen for seen in person.api.seen if seen.path.startswith("/decisions/")]
    assert len(asked) == GROUPS_ASKED_MAX
    assert "asked about the 8 largest groups; 2 more: name a pod of them" in result.out


async def test_all_namespaces_and_a_selector_reach_the_api_server(person: User) -> None:
    person.api.script(
        "GET /api/v1/pods", reply({"metadata": {"resourceVersion": "1"}, "items": []})
    )

    result = await person.types("why", "-A", "-l", "app=x")

    assert (result.status, result.out) == (0, "no pod waits\n")
    [listed] = [seen for seen in person.api.seen if seen.path == "/api/v1/pods"]
    assert listed.query["labelSelector"] == "app=x"


async def test_without_the_leader_the_list_names_the_commands_that_reach_it(person: User) -> None:
    items = [pod_json("a", status={"conditions": [WAITS]})]
    person.api.script(PODS, reply({"metadata": {"resourceVersion": "1"}, "items": items}))

    result = await person.types("why", "-n", "team", "-l", "app in (x)", "--no-forward")

    assert "1 pod: Too many pods" in result.out
    assert "an admin can run" in result.out
    assert "gpuctl why -n team -l 'app in (x)' --server http://127.0.0.1:8090" in result.out


async def test_the_only_pod_of_an_owner_is_explained_in_full(person: User) -> None:
    made = pod_json("a", owner="Job/train", status={"conditions": [WAITS]})
    person.api.script(
        PODS, reply({"metadata": {"resourceVersion": "1"}, "items": [made, pod_json("b")]})
    )
    person.api.script(POD, reply(made))

    result = await person.types("why", "job/train")

    assert result.status == 2, result.err
    assert result.out.startswith("team/a waits")


async def test_shape_for_programs_does_not_depend_on_the_number_of_pods(person: User) -> None:
    made = pod_json("a", owner="Job/train", status={"conditions": [WAITS]})
    person.api.script(PODS, reply({"metadata": {"resourceVersion": "1"}, "items": [made]}))

    result = await person.types("why", "job/train", "-o", "json")

    [group] = json.loads(result.out)["groups"]
    assert [one["pod"] for one in group["pods"]] == ["a"]


async def test_owner_without_pods_shows_why_its_controller_creates_none(person: User) -> None:
    person.api.script(PODS, reply({"metadata": {"resourceVersion": "1"}, "items": []}))
    refused = 'pods "web-7d9-" is forbidden: exceeded quota: gpus'
    event = {"involvedObject": {"name": "web-7d9"}, "message": refused}
    other = {"involvedObject": {"name": "web-api-5c4"}, "message": "of another Deployment"}
    person.api.script(EVENTS, reply({"items": [event, other]}))

    result = await person.types("why", "deploy/web")

    assert result.status == 1
    assert result.err == (f"gpuctl why: deployment web has no pod in namespace team: {refused}\n")


async def test_misspelt_annotation_of_any_prefix_is_noticed(person: User) -> None:
    notes = {"gpu-scheduler/mig-fallback": "1g.10gb"}
    person.api.script(POD, reply(pod_json("a", annotations=notes)))

    result = await person.types("why", "a")

    assert "did you mean gpu-scheduler.io/mig-fallback?" in result.out


async def test_watch_ends_when_the_pod_has_a_node(
    person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuctl.commands.why.WATCH_S", 0.01)
    person.api.script(
        POD,
        reply(pod_json("a", status={"conditions": [WAITS]})),
        reply(pod_json("a", status={"conditions": [WAITS]})),
        reply(pod_json("a", node="n1")),
    )

    result = await person.types("why", "a", "--watch")

    assert result.status == 0
    assert result.out.count("team/a waits") == 1
    assert "team/a is on n1" in result.out


@pytest.mark.parametrize("form", ["json", "yaml"])
async def test_json_output_has_the_same_answer(person: User, form: str) -> None:
    person.api.script(POD, reply(pod_json("a", status={"conditions": [WAITS]})))
    person.api.script(DECISIONS, told(REFUSED, waits=True))

    result = await person.types("why", "a", "--server", person.api.url, "-o", form)

    read: Any = yaml.safe_load(result.out)
    assert read["waits"] is True
    assert read["witness"]["reasons"][0]["code"] == "TOO_MANY_PODS"
    assert read["answer"]["now"]["refusals"][0]["node"] == "n1"


@pytest.mark.parametrize(
    ("lease", "allowed", "result"),
    [
        pytest.param(failure(403, "Forbidden"), True, "names no leader", id="lease"),
        pytest.param(reply(HOLDER), False, "you may not forward to pod leader-1", id="forward"),
    ],
)
@pytest.mark.parametrize(
    ("words", "command"),
    [
        pytest.param(("snapshot",), "gpuctl snapshot", id="snapshot"),
        pytest.param(("defrag", "a", "-n", "x"), "gpuctl defrag a -n x", id="defrag"),
    ],
)
async def test_failed_snapshot_names_the_right_and_the_own_command(
    person: User, lease: Any, allowed: bool, result: str, words: tuple[str, ...], command: str
) -> None:
    person.api.script(LEASE, lease)
    person.api.script(REVIEW, reply({"status": {"allowed": allowed}}, 201))

    answer = await person.types(*words)

    assert (answer.status, answer.out) == (1, "")
    assert result in answer.err
    assert "an admin can run: kubectl" in answer.err
    assert f"{command} --server http://127.0.0.1:8090" in answer.err


async def test_non_snapshot_answer_is_not_written(person: User, tmp_path: Path) -> None:
    person.api.script("GET /snapshot", reply({"kind": "Pod"}))
    file = tmp_path / "s.json"

    result = await person.types("snapshot", "-o", str(file), "--server", person.api.url)

    assert result.status == 1
    assert result.err.startswith("gpuctl snapshot: the answer: is no snapshot of gpu-scheduler")
    assert not file.exists()
