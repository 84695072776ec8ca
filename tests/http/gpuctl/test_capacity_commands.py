"""``gpuctl top`` and ``free``: from the leader, from the objects of the API, from one namespace."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gpuctl.__main__ import main
from gpuctl.capacity import CapacityAnswer
from gpuctl.commands.completion import kubectl_lines
from gpuctl.output import free as free_output
from gpuctl.output import top as top_output
from scheduler.report.decisions.api_types import API_VERSION, Capacity
from scheduler.state.capacity.node_devices import DeviceAmount, Holder, NodeDevices
from scheduler.state.capacity.summary import (
    ModelCapacity,
    NamespaceCapacity,
    QuotaUse,
    WaitingPod,
)
from tests.builders import pod_json
from tests.http.fakeapi import FakeApi, failure, reply
from tests.http.gpuctl.test_why_command import User
from tests.unit.gpuctl.test_narrow_terminals import printed

H100 = "NVIDIA-H100-80GB-HBM3"
A100 = "NVIDIA-A100-SXM4-80GB"
CAPACITY = Capacity(
    api_version=API_VERSION,
    leads=True,
    time="2026-11-27T12:00:00.000000Z",
    nodes_total=3,
    models=(
        ModelCapacity(
            product=H100,
            memory_mib=81559,
            nodes=2,
            devices={"gpu": DeviceAmount(16, 11, 4, 1)},
            fits={"8": 0, "4": 0, "2": 2, "1": 4},
            largest=3,
            largest_node="h100-07",
        ),
        ModelCapacity(
            product=A100,
            nodes=1,
            devices={"2g.20gb": DeviceAmount(3, 1, 2), "1g.10gb": DeviceAmount(7, 2, 5)},
            largest_slice="2g.20gb",
        ),
    ),
    namespaces=(
        NamespaceCapacity(
            namespace="team",
            pods=2,
            devices={"gpu": 10},
            waiting_pods=1,
            waiting_devices={"gpu": 8},
            oldest_wait_s=1080.0,
            quotas=(QuotaUse(quota="gpus", device="gpu", used=18, hard=18),),
        ),
        NamespaceCapacity(namespace="vision", pods=1, devices={"gpu": 1, "1g.10gb": 2}),
    ),
    nodes=(
        NodeDevices(
            node="h100-07",
            product=H100,
            memory_mib=81559,
            devices={"gpu": DeviceAmount(8, 4, 3, 1)},
            gpus="####...F",
            is_numbered=True,
            taints=("gpu=reserved",),
            holders=(
                Holder(namespace="team", pod="vllm-0", devices={"gpu": 3}, indexes=(0, 1, 2)),
                Holder(namespace="vision", pod="train", devices={"gpu": 1}),
            ),
        ),
        NodeDevices(
            node="h100-08",
            product=H100,
            memory_mib=81559,
            devices={"gpu": DeviceAmount(8, 7, 0)},
            gpus="#######+",
            problem="cordoned",
            holders=(Holder(namespace="team", pod="big-0", devices={"gpu": 7}),),
        ),
        NodeDevices(
            node="mig-1",
            product=A100,
            devices={"2g.20gb": DeviceAmount(3, 1, 2), "1g.10gb": DeviceAmount(7, 2, 5)},
            holders=(Holder(namespace="vision", pod="infer", devices={"1g.10gb": 2}),),
        ),
    ),
    waiting=(
        WaitingPod(namespace="team", pod="w-0", devices={"gpu": 8}, waits_s=1080.0, position=1),
    ),
)
NODES, PODS = "GET /api/v1/nodes", "GET /api/v1/pods"
OWN_PODS = "GET /api/v1/namespaces/team/pods"
OWN_QUOTAS = "GET /api/v1/namespaces/team/resourcequotas"
NODE = {
    "metadata": {"name": "n1", "uid": "n1", "labels": {"nvidia.com/gpu.product": H100}},
    "status": {"allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"nvidia.com/gpu": "8"}},
}


def listed(*items: Any) -> Any:
    """A list as the API server answers it."""
    return reply({"metadata": {"resourceVersion": "1"}, "items": list(items)})


@pytest.fixture
def user(api: FakeApi, tmp_path: Path) -> User:
    api.script("GET /capacity", reply(json.loads(msgspec.json.encode(CAPACITY))))
    return User(api, tmp_path)


async def of_leader(user: User, *words: str) -> str:
    """What a command prints that asks the leader."""
    result = await user.types(*words, "--server", user.api.url)
    assert result.status == 0, result.err
    return result.out


async def test_top_has_the_cluster_in_a_line_and_the_namespaces(user: User) -> None:
    assert (await of_leader(user, "top")).splitlines() == [
        "3 nodes  16 GPUs  held 11 (68%)  free 4  failed 1  slices held 3"
        "  waiting 1 pod, 8 GPUs, oldest 18m",
        "",
        "NAMESPACE  GPUS  SLICES       QUOTA  WAITING  OLDEST",
        "team       10    -            18/18  1        18m",
        "vision     1     2 x 1g.10gb  -      0        -",
    ]
    assert user.api.seen[-1].query == {}


async def test_top_nodes_draws_gpus_and_names_holders_and_problems(user: User) -> None:
    lines = (await of_leader(user, "top", "nodes")).splitlines()

    assert lines[:4] == [
        "NODE     MODEL     GPUS  HELD                      LARGEST FREE  BY",
        "h100-07  H100 80G  8     ####...F                  3             "
        "vllm-0 3, train 1; failed: GPU 7; taint gpu=reserved",
        "h100-08  H100 80G  8     #######+                  -             big-0 7; cordoned",
        "mig-1    A100 80G  -     1 x 2g.20gb, 2 x 1g.10gb  2g.20gb       infer 2 x 1g.10gb",
    ]
    assert user.api.seen[-1].query == {"holders": "1"}


@pytest.mark.parametrize(
    ("order", "names"),
    [
        pytest.param("name", ["h100-07", "h100-08", "mig-1"], id="name"),
        pytest.param("held", ["h100-08", "h100-07", "mig-1"], id="held"),
        pytest.param("free", ["h100-07", "h100-08", "mig-1"], id="free"),
        pytest.param("frag", ["h100-07", "h100-08", "mig-1"], id="frag"),
    ],
)
async def test_nodes_are_sorted(user: User, order: str, names: list[str]) -> None:
    lines = (await of_leader(user, "top", "nodes", "--sort", order)).splitlines()

    assert [line.split()[0] for line in lines[1:4]] == names


@pytest.mark.parametrize(
    ("words", "pods"),
    [
        pytest.param((), ["vllm-0", "train", "big-0", "infer", "w-0"], id="all"),
        pytest.param(("-n", "vision"), ["train", "infer"], id="namespace"),
        pytest.param(("-l", "app=a"), ["vllm-0"], id="labels"),
    ],
)
async def test_top_pods_lists_holders_and_waiting_pods(
    user: User, words: tuple[str, ...], pods: list[str]
) -> None:
    user.api.script(PODS, listed(pod_json("vllm-0", namespace="team")))

    lines = (await of_leader(user, "top", "pods", *words)).splitlines()

    assert [line.split()[1] for line in lines[1:]] == pods


async def test_labels_without_pods_are_a_mistake(user: User) -> None:
    result = await user.types("top", "-l", "app=a", "--server", user.api.url)

    assert result.status == 1
    assert result.err.startswith("gpuctl top: -l selects pods: gpuctl top pods -l LABELS")


@pytest.mark.parametrize("width", [40, 60, 80])
def test_tables_fit_narrow_terminals_with_whole_names(width: int) -> None:
    answer = CapacityAnswer(source="leader", namespace="team", capacity=CAPACITY)
    parts = (
        top_output.overview(answer),
        top_output.nodes(answer, CAPACITY.nodes, wide=True),
        top_output.pods(answer),
        free_output.free(answer),
    )

    for part in parts:
        lines = printed(part, width)
        assert max(map(len, lines)) <= width
    nodes = printed(parts[1], width)
    assert all(any(one.node in line for line in nodes) for one in CAPACITY.nodes)
    assert any("####...F" in line for line in nodes)


async def test_free_has_the_room_by_size_and_the_quota(user: User) -> None:
    assert (await of_leader(user, "free")).splitlines() == [
        "MODEL     8 at once  4  2  1  SLICES",
        "H100 80G  0          0  2  4  -",
        "A100 80G  -          -  -  -  2 x 2g.20gb, 5 x 1g.10gb",
        "",
        "pods that start now if they request this many GPUs of one node, or one slice",
        "largest job that starts now: 3 GPUs (node h100-07)",
        "largest free slice: 2g.20gb (A100 80G)",
        "you (team): quota 18 of 18 gpu used: no more may be created (gpus)",
        "not counted: 1 node: cordoned",
        "tolerate to use 1 node: gpu=reserved",
        "waiting 1 pod, 8 GPUs, oldest 18m",
    ]


@pytest.mark.parametrize("command", [("top",), ("top", "nodes"), ("top", "pods"), ("free",)])
@pytest.mark.parametrize("form", ["json", "yaml"])
async def test_documents_have_the_answer_and_its_source(
    user: User, command: tuple[str, ...], form: str
) -> None:
    found = yaml.safe_load(await of_leader(user, *command, "-o", form))

    assert (found["source"], found["namespace"], found["notes"]) == ("leader", "team", [])
    assert found["capacity"]["kind"] == "Capacity"
    assert found["capacity"]["models"][0]["devices"]["gpu"]["free"] == 4


@pytest.mark.parametrize(
    ("command", "keys", "first"),
    [
        pytest.param(
            ("top",),
            "namespace,device,held,waiting,quotaUsed,quotaHard",
            ["team", "gpu", "10", "8", "18", "18"],
            id="namespaces",
        ),
        pytest.param(
            ("top", "nodes"),
            "node,product,memoryMib,device,total,held,free,failed,problem,taints",
            ["h100-07", H100, "81559", "gpu", "8", "4", "3", "1", "", "gpu=reserved"],
            id="nodes",
        ),
        pytest.param(
            ("top", "pods"),
            "namespace,pod,node,device,count,indexes,waitsS,position",
            ["team", "vllm-0", "h100-07", "gpu", "3", "0 1 2", "", ""],
            id="pods",
        ),
        pytest.param(
            ("free",),
            "product,memoryMib,device,size,pods",
            [H100, "81559", "gpu", "8", "0"],
            id="free",
        ),
    ],
)
async def test_csv_has_stable_keys(
    user: User, command: tuple[str, ...], keys: str, first: list[str]
) -> None:
    head, row, *_ = csv.reader(io.StringIO(await of_leader(user, *command, "-o", "csv")))

    assert (",".join(head), row) == (keys, first)


# --- without the leader --------------------------------------------------------------------------


async def test_without_the_leader_nodes_and_pods_give_the_same_sums(user: User) -> None:
    holder = pod_json("a", gpus=3, node="n1")
    user.api.script(NODES, listed(NODE))
    user.api.script(PODS, listed(holder, pod_json("w", gpus=8)))

    top = await user.types("top")
    pods = await user.types("top", "pods")
    free = await user.types("free")

    assert top.out.splitlines()[0].startswith("1 node  8 GPUs  held 3 (37%)  free 5  waiting 1 pod")
    assert "note: from the objects that you may list, without the leader" in top.out
    assert "team       a    n1" in pods.out
    assert "H100 80G  0          1  2  5  -" in free.out


async def test_user_of_one_namespace_sees_its_pods_and_quota(user: User) -> None:
    quota = {
        "metadata": {"name": "gpus", "namespace": "team"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4"}},
        "status": {
            "hard": {"requests.nvidia.com/gpu": "4"},
            "used": {"requests.nvidia.com/gpu": "3"},
        },
    }
    user.api.script(NODES, failure(403, "Forbidden"))
    user.api.script(PODS, failure(403, "Forbidden"))
    user.api.script(OWN_PODS, listed(pod_json("a", gpus=3, node="n1"), pod_json("w", gpus=1)))
    user.api.script(OWN_QUOTAS, listed(quota))

    top = await user.types("top")
    pods = await user.types("top", "pods")
    free = await user.types("free")

    assert "team       3     -       3/4    1" in top.out
    assert "team       a    n1" in pods.out
    assert free.out.splitlines() == [
        "you (team): quota 3 of 4 gpu used: 1 more may be created (gpus)",
        free.out.splitlines()[1],
        "",
        "note: only namespace team: you may not list nodes and all pods (a ClusterRole with both)",
    ]
    assert free.out.splitlines()[1].startswith("waiting 1 pod, 1 GPU, oldest")


async def test_quotas_that_may_not_be_listed_are_noted(user: User) -> None:
    for path in (NODES, PODS, OWN_QUOTAS):
        user.api.script(path, failure(403, "Forbidden"))
    user.api.script(OWN_PODS, listed(pod_json("a", gpus=3, node="n1")))

    for words in (("free",), ("top",), ("top", "namespaces")):
        answer = await user.types(*words)

        assert answer.out.splitlines()[-2:] == [
            "note: only namespace team: you may not list nodes and all pods"
            " (a ClusterRole with both)",
            "note: you may not list resourcequotas; they are not counted",
        ]


async def test_user_without_any_right_gets_one_line(user: User) -> None:
    user.api.script(NODES, failure(403, "Forbidden"))
    user.api.script(PODS, failure(403, "Forbidden"))
    user.api.script(OWN_PODS, failure(403, "Forbidden", "you may not list pods"))

    result = await user.types("free")

    assert (result.status, result.out) == (1, "")
    hint = "pass -n with a namespace whose pods you may list"
    assert result.err == f"gpuctl free: you may not list pods; {hint}\n"


async def test_kinds_that_may_not_be_listed_are_noted(user: User) -> None:
    user.api.script(NODES, listed(NODE))
    user.api.script(PODS, listed())
    user.api.script("GET /apis/resource.k8s.io/v1/resourceslices", failure(403, "Forbidden"))

    result = await user.types("free")

    assert "note: you may not list resourceslices; they are not counted" in result.out


async def test_answer_that_is_no_capacity_is_one_line(user: User) -> None:
    user.api.script("GET /capacity", reply({"kind": "Pod"}))

    result = await user.types("free", "--server", user.api.url)

    assert result.status == 1
    assert "is no decisions API that gpuctl understands" in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("word", "values"),
    [
        pytest.param("w", ["w-1", "w-0"], id="waiting-first"),
        pytest.param("pod/w-1", ["pod/w-1"], id="with-type"),
        pytest.param("deploy/w", [], id="owner"),
        pytest.param("x", [], id="none"),
    ],
)
async def test_names_of_pods_are_completed(user: User, word: str, values: list[str]) -> None:
    user.api.script(OWN_PODS, listed(pod_json("w-0", node="n1"), pod_json("w-1"), pod_json("v")))
    words = ["why", "--kubeconfig", str(user.kubeconfig), word]

    lines = (await asyncio.to_thread(kubectl_lines, main, words)).splitlines()

    assert [line.partition("\t")[0] for line in lines[:-1]] == values
    assert lines[-1] == ":4"


async def test_completion_without_a_cluster_is_empty(user: User) -> None:
    words = ["why", "--kubeconfig", "absent", "w"]

    assert await asyncio.to_thread(kubectl_lines, main, words) == ":4"
