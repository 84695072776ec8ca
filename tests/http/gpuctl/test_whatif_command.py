"""``gpuctl whatif``: from the leader's state, from the objects of the API, and without rights."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gpuctl.__main__ import main
from gpuctl.commands.completion import kubectl_lines
from scheduler.config import Config, Fallback
from scheduler.report.decisions.api_types import API_VERSION, SNAPSHOT_VERSION, Snapshot
from scheduler.state.snapshot import Avoided, ClusterSnapshot
from tests.builders import namespace, node, pod_json
from tests.http.fakeapi import FakeApi, failure, reply
from tests.http.gpuctl.test_capacity_commands import listed
from tests.http.gpuctl.test_why_command import User
from tests.unit.gpuctl.cli import GPU, MIG_1G, MIG_2G, CommandOutput, pod, spec, workload

NODES, PODS, SPACES = "GET /api/v1/nodes", "GET /api/v1/pods", "GET /api/v1/namespaces"
BUDGETS = "GET /apis/policy/v1/poddisruptionbudgets"
OWNER = "GET /apis/apps/v1/namespaces/team/replicasets/web"
CONFIG = "GET /api/v1/namespaces/gpu-scheduler-system/configmaps/gpu-scheduler-config"
CLASSES = "GET /apis/scheduling.k8s.io/v1/priorityclasses"


def h100(name: str) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}
    amounts = {GPU: "8", "cpu": "64", "memory": "512Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


RUNNING = pod_json("web-1", owner="ReplicaSet/web", gpus=1, node="h100-07")


@pytest.fixture
def user(api: FakeApi, tmp_path: Path) -> User:
    """A user who may list everything, and reach no leader."""
    api.script(NODES, listed(h100("h100-07")))
    api.script(PODS, listed(RUNNING))
    api.script(SPACES, listed({"metadata": {"name": "team"}}))
    return User(api, tmp_path)


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    """A Job with two pods of four GPUs."""
    path = tmp_path / "job.yaml"
    job = workload("Job", "train", spec(GPU, 4), parallelism=2, completions=2)
    path.write_text(yaml.safe_dump(job))
    return str(path)


async def asked(user: User, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit status and the answer."""
    result: CommandOutput = await user.types("whatif", *words, "-o", "json")
    assert result.out, result.err
    return result.status, json.loads(result.out)


def configuration(**parts: Any) -> str:
    """A file of the scheduler."""
    head = {"apiVersion": "gpu-scheduler.io/v1", "kind": "GpuSchedulerConfiguration"}
    return yaml.safe_dump({**head, **parts})


async def test_objects_of_the_api_are_the_state(user: User, manifest: str) -> None:
    user.api.script(CONFIG, reply({"data": {"config.yaml": configuration()}}))

    status, found = await asked(user, "-f", manifest)
    changed, more = await asked(user, "-f", manifest, "--add-nodes", "h100x8:1")

    assert (found["source"], found["now"]["starts"], found["now"]["asked"]) == ("api", 1, 2)
    assert (more["now"]["starts"], more["change"]["starts"]) == (1, 2)
    assert (status, changed) == (2, 0)
    assert not {"change", "notes"}.intersection(found)


async def test_configuration_of_the_cluster_decides(
    user: User, manifest: str, tmp_path: Path
) -> None:
    """With its own ladder the pod falls back; the ConfigMap says it, or a file."""
    amounts = {MIG_1G: "1", "cpu": "64", "memory": "512Gi", "pods": "110"}
    user.api.script(NODES, listed({"metadata": {"name": "m1"}, "status": {"allocatable": amounts}}))
    Path(manifest).write_text(yaml.safe_dump(pod("p", spec(MIG_2G))))
    without = configuration(fallback={"ladders": []})
    user.api.script(CONFIG, reply({"data": {"config.yaml": without}}))

    refused, _ = await asked(user, "-f", manifest)
    file = tmp_path / "scheduler.yaml"
    file.write_text(configuration())
    by_file, found = await asked(user, "-f", manifest, "--config", str(file))
    user.api.script(CONFIG, failure(403, "Forbidden"))
    by_default, noted = await asked(user, "-f", manifest)

    assert (refused, by_file, by_default) == (2, 0, 0)
    assert "fell back" in found["now"]["pods"][0]["reason"]
    assert noted["notes"] == [
        "ConfigMap gpu-scheduler-system/gpu-scheduler-config was not read, so defaults are assumed;"
        " pass --config FILE"
    ]


async def test_leader_is_asked_for_its_state(user: User, manifest: str) -> None:
    """It knows nodes in backoff, and which configuration runs."""
    state = ClusterSnapshot(
        scheduler_name="gpu-scheduler",
        generation=1,
        now=0.0,
        nodes=(node("n1", gpus=8), node("n2", gpus=8)),
        namespaces=(namespace("team"),),
        avoided=(Avoided(node_name="n1", scopes=("gpu",)),),
    )
    taken = Snapshot(
        api_version=API_VERSION,
        version=SNAPSHOT_VERSION,
        program="gpu-scheduler 0",
        time="2026-11-27T12:04:11.000000Z",
        settings=Config().pipeline().settings,
        configuration=msgspec.Raw(msgspec.json.encode(Config(fallback=Fallback(ladders=())))),
        state=state,
    )
    user.api.script("GET /snapshot", reply(json.loads(msgspec.json.encode(taken))))

    _, found = await asked(user, "-f", manifest, "--server", user.api.url)

    assert (found["source"], found["time"]) == ("leader", taken.time)
    assert user.api.count(NODES) == 0
    assert len({one.get("node") for one in found["now"]["pods"]}) == 1


async def test_owner_of_a_drained_pod_is_read(user: User) -> None:
    template = {"spec": spec(GPU, 1, nodeSelector={"zone": "eu-1a"})}
    user.api.script(OWNER, reply({"apiVersion": "apps/v1", "spec": {"template": template}}))

    status, found = await asked(user, "--add-nodes", "h100-07:1", "--drain", "h100-07")

    (move,) = found["moves"]
    assert (status, move["pod"], move["codes"]) == (
        2,
        "web-1",
        ["AFFINITY", "NODE_UNSCHEDULABLE"],
    )
    assert user.api.count(OWNER) == 1


async def test_pod_without_a_readable_owner_is_read_itself(user: User) -> None:
    user.api.script("GET /api/v1/namespaces/team/pods/web-1", reply(RUNNING))

    status, found = await asked(user, "--add-nodes", "h100-07:1", "--drain", "h100-07")

    assert (status, found["moves"][0]["node"]) == (0, "h100-07-new-1")


async def test_budgets_are_read_with_their_health(user: User) -> None:
    user.api.script("GET /api/v1/namespaces/team/pods/web-1", reply(RUNNING))
    budget = {
        "metadata": {"namespace": "team", "name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1},
    }
    labelled = {**RUNNING, "metadata": {**RUNNING["metadata"], "labels": {"app": "web"}}}
    user.api.script(PODS, listed(labelled))
    user.api.script(BUDGETS, listed(budget))

    status, found = await asked(user, "--add-nodes", "h100-07:1", "--drain", "h100-07")

    assert (status, found["moves"][0]["codes"]) == (2, ["DISRUPTION_BUDGET"])
    assert found["failed"] == ["h100-07 is not drained: team/web-1 cannot leave it"]


async def test_classes_of_the_cluster_are_read(user: User, manifest: str) -> None:
    high = pod("p", spec(GPU, 8, priorityClassName="high"))
    Path(manifest).write_text(yaml.safe_dump(high))
    user.api.script(CLASSES, listed({"metadata": {"name": "high"}, "value": 1000}))

    status, found = await asked(user, "-f", manifest)

    assert (status, found["now"]["preempted"]) == (0, ["team/web-1"])


async def test_table_fits_and_says_that_nothing_was_changed(user: User, manifest: str) -> None:
    result = await user.types("whatif", "-f", manifest, "--replicas", "4", "--drain", "h100-07")

    lines = result.out.splitlines()
    assert result.status == 2
    assert lines[1].split() == ["starts", "at", "once", "1", "of", "4", "0", "of", "4"]
    assert lines[-1].startswith("nothing was changed; decided by gpu-scheduler ")
    assert all(seen.method == "GET" for seen in user.api.seen if "access" not in seen.path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(NODES, "you may not list nodes of the whole cluster;", id="nodes"),
        pytest.param(PODS, "you may not list pods of the whole cluster;", id="pods"),
    ],
)
async def test_missing_right_is_one_line(
    user: User, manifest: str, call: str, message: str
) -> None:
    user.api.script(call, failure(403, "Forbidden"))

    result = await user.types("whatif", "-f", manifest)

    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"gpuctl whatif: {message}")
    assert result.err.count("\n") == 1


async def test_right_that_only_some_pods_need_is_a_note(user: User, manifest: str) -> None:
    user.api.script(BUDGETS, failure(403, "Forbidden"))
    user.api.script(CLASSES, failure(403, "Forbidden"))

    _, found = await asked(user, "-f", manifest)

    assert found["notes"][:1] == [
        "you may not list poddisruptionbudgets; they are taken for absent"
    ]
    assert "you may not list PriorityClass; they are taken for absent" in found["notes"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param((), "pass -f FILE, --add-nodes, --drain or --layout", id="nothing"),
        pytest.param(("--replicas", "2", "--drain", "a"), "--replicas needs -f FILE", id="count"),
        pytest.param(("-f", "nope.yaml"), "nope.yaml: No such file or directory", id="file"),
        pytest.param(("--drain", "n9"), "--drain n9: no node n9; there are: h100-07", id="node"),
        pytest.param(
            ("--add-nodes", "a100x4:1"),
            "--add-nodes a100x4: no ready node of that shape; there are: h100x8 (1 node), or"
            " like=NODE",
            id="shape",
        ),
    ],
)
async def test_wrong_words_are_one_line(user: User, words: tuple[str, ...], message: str) -> None:
    result = await user.types("whatif", *words)

    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"gpuctl whatif: {message}")


async def test_shell_completes_the_nodes_to_drain(user: User) -> None:
    words = ["whatif", "--kubeconfig", str(user.kubeconfig), "--drain", "h"]

    assert await asyncio.to_thread(kubectl_lines, main, words) == "h100-07\n:4"
    user.api.script(NODES, failure(403, "Forbidden"))
    assert await asyncio.to_thread(kubectl_lines, main, words) == ":4"


def test_shell_completes_the_command_and_its_files() -> None:
    assert kubectl_lines(main, ["whati"]).startswith("whatif\t")
    assert kubectl_lines(main, ["whatif", "-f", ""]).endswith(":0")
