"""``gpuctl cost``: now by the leader, by the API, by one namespace; over time by Prometheus."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scheduler.report.decisions.api_types import API_VERSION, Cost, GpuBill, GpuShare
from tests.builders import pod_json
from tests.http.fakeapi import FakeApi, failure, reply, text
from tests.http.gpuctl.test_capacity_commands import H100, NODE, NODES, OWN_PODS, PODS, listed
from tests.http.gpuctl.test_why_command import User

A100 = "NVIDIA-A100-SXM4-80GB"
ON_H100, ON_A100 = {"model": H100, "price": "12/5"}, {"model": A100, "price": "9/5"}


def held(namespace: str, **more: Any) -> GpuShare:
    return GpuShare(namespace=namespace, pods=1, **more)


COST = Cost(
    api_version=API_VERSION,
    leads=True,
    time="2026-11-27T12:00:00.000000Z",
    currency="EUR",
    nodes_total=3,
    models=(
        GpuBill(**ON_A100, gpus=1, held="2/7", free="4/7", stranded="1/7"),
        GpuBill(**ON_H100, gpus=8, held="3", free="4", failed="1"),
    ),
    namespaces=(
        held("team", **ON_H100, gpus="3", gpu_seconds="10800"),
        held(
            "vision",
            **ON_A100,
            gpus="2/7",
            degraded="2/7",
            saved="3/14",
            gpu_seconds="7200",
            degraded_seconds="7200",
            saved_seconds="5400",
        ),
    ),
    nodes=(
        GpuBill(**ON_A100, node="mig-1", gpus=1, held="2/7", free="4/7", stranded="1/7"),
        GpuBill(**ON_H100, node="h100-1", gpus=8, held="3", free="4", failed="1"),
    ),
    pods=(
        held("team", **ON_H100, pod="train", node="h100-1", label="a", gpus="2"),
        held("team", **ON_H100, pod="serve", node="h100-1", gpus="1"),
        held("vision", **ON_A100, pod="infer", node="mig-1", label="b", gpus="2/7"),
    ),
)
CONFIG = "GET /api/v1/namespaces/gpu-scheduler-system/configmaps/gpu-scheduler-config"
PRICES = "currency: EUR\ndefault: 1\nmodels: {H100: 2.40}\n"


@pytest.fixture
def user(api: FakeApi, tmp_path: Path) -> User:
    api.script("GET /cost", reply(json.loads(msgspec.json.encode(COST))))
    return User(api, tmp_path)


async def of_leader(user: User, *words: str) -> str:
    """What the command prints that asks the leader."""
    result = await user.types("cost", *words, "--server", user.api.url)
    assert result.status == 0, result.err
    return result.out


@pytest.mark.contract("S4-24")
async def test_cost_has_the_bill_the_namespaces_and_the_idle_parts(user: User) -> None:
    assert (await of_leader(user)).splitlines() == [
        "3 nodes  9 GPUs  21.00 EUR per hour: held 7.71, free 10.63, stranded 0.26, failed 2.40",
        "",
        "NAMESPACE   PODS  GPUS  EUR/H  GPU H  EUR   DEGRADED H  SAVED",
        "team        1     3.00  7.20   3.00   7.20  -           -",
        "vision      1     0.29  0.51   2.00   3.60  2.00        2.70",
        "(free)      -     4.57  10.63  -      -     -           -",
        "(stranded)  -     0.14  0.26   -      -     -           -",
        "(failed)    -     1.00  2.40   -      -     -           -",
    ]
    assert user.api.seen[-1].query == {}


@pytest.mark.parametrize(
    ("by", "names", "query"),
    [
        pytest.param("model", ["H100", "A100"], {}, id="model"),
        pytest.param("node", ["h100-1", "mig-1"], {"nodes": "1", "pods": "1"}, id="node"),
        pytest.param("label:app", ["a", "(none)", "b"], {"pods": "1", "label": "app"}, id="label"),
    ],
)
async def test_rows_are_grouped(
    user: User, by: str, names: list[str], query: dict[str, str]
) -> None:
    lines = (await of_leader(user, "--by", by)).splitlines()

    assert [line.split()[0] for line in lines[3 : 3 + len(names)]] == names
    asked = user.api.seen[-1].query
    assert {key: value for key, value in asked.items() if value} == query


async def test_wide_has_what_is_idle_of_each_node(user: User) -> None:
    head, first, second = (await of_leader(user, "--by", "node", "-o", "wide")).splitlines()[2:5]

    assert head.split()[-4:] == ["FREE", "STRANDED", "FAILED", "UNAVAILABLE"]
    assert first.split()[-4:] == ["4.00", "-", "1.00", "-"]
    assert second.split()[-4:] == ["0.57", "0.14", "-", "-"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        pytest.param(("-n", "vision"), ["vision"], id="namespace"),
        pytest.param(("-l", "app=a"), ["team"], id="labels"),
    ],
)
async def test_a_selection_has_no_idle_parts(
    user: User, words: tuple[str, ...], names: list[str]
) -> None:
    user.api.script(PODS, listed(pod_json("train", namespace="team")))

    lines = (await of_leader(user, *words)).splitlines()

    assert [line.split()[0] for line in lines] == ["NAMESPACE", *names]


async def test_documents_have_rows_and_the_exact_answer(user: User) -> None:
    found = yaml.safe_load(await of_leader(user, "-o", "yaml"))

    assert (found["source"], found["by"], found["currency"]) == ("leader", "namespace", "EUR")
    assert found["cost"]["namespaces"][1]["gpus"] == "2/7"
    assert round(sum(row["gpus"] for row in found["rows"]), 4) == 9
    assert round(sum(row["perHour"] for row in found["rows"]), 4) == 21


async def test_csv_has_stable_keys(user: User) -> None:
    head, row, *_ = csv.reader(io.StringIO(await of_leader(user, "-o", "csv")))

    assert ",".join(head) == (
        "name,pods,gpus,perHour,gpuHours,cost,degradedGpuHours,saved,heldIdle,heldUnknown,"
        "free,stranded,failed,unavailable"
    )
    assert row == ["team", "1", "3.0", "7.2", "3.0", "7.2", "0.0", "0.0", "", "0.0", *[""] * 4]


# --- use of the GPUs -------------------------------------------------------------------------


async def test_held_idle_is_what_pods_without_use_cost(user: User) -> None:
    series = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",namespace="team",pod="train"} 0\n'
    user.api.script("GET /metrics", text(series, 200))

    out = await of_leader(user, "--idle", "--metrics-url", f"{user.api.url}/metrics")

    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert rows["team"].endswith("4.80 + ?")
    assert rows["vision"].endswith("unknown")
    assert "2 more pods have devices without a series" in out


async def test_without_an_exporter_held_idle_is_unknown(user: User) -> None:
    user.api.script("GET /api/v1/services", listed())

    out = await of_leader(user, "--idle")
    rows = json.loads(await of_leader(user, "--idle", "-o", "json"))["rows"]

    assert out.count("unknown") >= 2
    assert "note: held idle is unknown: --idle needs a DCGM exporter" in out
    assert [row["heldIdle"] for row in rows[:2]] == [None, None]
    assert rows[0]["heldUnknown"] == 7.2


# --- without the leader ----------------------------------------------------------------------


async def test_without_the_leader_nodes_and_pods_give_the_costs(user: User) -> None:
    user.api.script(NODES, listed(NODE))
    user.api.script(PODS, listed(pod_json("a", gpus=3, node="n1"), pod_json("w", gpus=8)))
    user.api.script(CONFIG, reply({"data": {"prices.yaml": PRICES}}))

    out = (await user.types("cost")).out

    assert out.splitlines()[0] == "1 node  8 GPUs  19.20 EUR per hour: held 7.20, free 12.00"
    assert "note: from the objects that you may list, without the leader" in out


async def test_user_of_one_namespace_sees_what_its_pods_hold(user: User, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(PRICES)
    user.api.script(NODES, failure(403, "Forbidden"))
    user.api.script(PODS, failure(403, "Forbidden"))
    user.api.script(CONFIG, failure(403, "Forbidden"))
    selector = {"nvidia.com/gpu.product": H100}
    pods = (
        pod_json("a", gpus=2, node="n1", selector=selector),
        pod_json("b", mig={"1g.10gb": 1}, node="n2"),
        pod_json("w", gpus=1),
    )
    user.api.script(OWN_PODS, listed(*pods))

    without = (await user.types("cost")).out
    priced = (await user.types("cost", "--prices", str(file))).out

    assert without.splitlines()[:2] == ["NAMESPACE  PODS  GPUS  GPU H", "team       2     2.14  -"]
    assert "note: only namespace team: you may not list nodes and all pods" in without
    assert "may not be read; pass --prices FILE" in without
    assert priced.splitlines()[1].split() == ["team", "2", "2.14", "4.94", "-", "-"]


async def test_user_without_any_right_gets_one_line(user: User) -> None:
    for path in (NODES, PODS, CONFIG):
        user.api.script(path, failure(403, "Forbidden"))
    user.api.script(OWN_PODS, failure(403, "Forbidden", "you may not list pods"))

    result = await user.types("cost")

    assert (result.status, result.out, result.err) == (
        1,
        "",
        "gpuctl cost: you may not list pods; pass -n with a namespace whose pods you may list\n",
    )


async def test_bad_price_file_is_one_line(user: User, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("currency: EUR\nmodels: {H100: -2}\n")

    result = await user.types("cost", "--prices", str(file))

    assert result.status == 1
    assert result.err == (
        f"gpuctl cost: {file}: $.models.H100: expected a price per hour from 0 to 1000000 with at"
        " most 6 digits after the point, got '-2'\n"
    )


async def test_bad_price_table_of_the_installation_is_noted(user: User) -> None:
    answer = msgspec.structs.replace(COST, currency="", problem="$.models.H100: bad")
    user.api.script("GET /cost", reply(json.loads(msgspec.json.encode(answer))))

    assert "note: no prices: $.models.H100: bad" in await of_leader(user)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("--by", "pod"), "expected namespace, model, node or label:KEY", id="by"),
        pytest.param(("--since", "7d"), "pass --prometheus URL", id="since"),
        pytest.param(
            ("--prometheus", "http://p", "--since", "x"), "such as 7d", id="since-no-duration"
        ),
        pytest.param(
            ("--prometheus", "http://p", "--by", "node"), "use --by namespace", id="range-by-node"
        ),
    ],
)
async def test_options_that_exclude_each_other(
    user: User, words: tuple[str, ...], said: str
) -> None:
    result = await user.types("cost", *words)

    assert result.status == 1
    assert said in result.err
