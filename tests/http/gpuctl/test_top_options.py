"""``gpuctl top pods --idle`` by the DCGM exporter, and ``gpuctl top --watch``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.http.fakeapi import FakeApi, failure, reply, text
from tests.http.gpuctl.test_capacity_commands import CAPACITY, listed, of_leader
from tests.http.gpuctl.test_why_command import User

SERVICE = {
    "metadata": {
        "name": "nvidia-dcgm-exporter",
        "namespace": "gpu-operator",
        "labels": {"app": "nvidia-dcgm-exporter"},
    },
    "spec": {"ports": [{"port": 9400}], "selector": {"app": "dcgm"}},
}
EXPORTERS = "GET /api/v1/namespaces/gpu-operator/pods"
UTIL = 'DCGM_FI_DEV_GPU_UTIL{{gpu="0",namespace="{}",pod="{}"}} {}\n'


def exporter(name: str, node: str) -> Any:
    return {
        "metadata": {"name": name, "namespace": "gpu-operator"},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def user(api: FakeApi, tmp_path: Path) -> User:
    api.script("GET /capacity", reply(json.loads(msgspec.json.encode(CAPACITY))))
    return User(api, tmp_path)


async def test_idle_pods_are_those_of_every_exporter_without_use(user: User) -> None:
    api = user.api
    api.script("GET /api/v1/services", listed(SERVICE))
    api.script(EXPORTERS, listed(exporter("e1", "h100-07"), exporter("e2", "h100-08")))
    first = UTIL.format("team", "vllm-0", 0) + UTIL.format("vision", "train", 60)
    api.script(f"{EXPORTERS}/e1:9400/proxy/metrics", text(first, 200))
    api.script(f"{EXPORTERS}/e2:9400/proxy/metrics", text(UTIL.format("team", "big-0", 0), 200))

    out = await of_leader(user, "top", "pods", "--idle")

    shown = [line.split()[1] for line in out.splitlines() if line.startswith(("team", "vision"))]
    assert shown == ["vllm-0", "big-0"]
    assert "of the DCGM exporter gpu-operator/nvidia-dcgm-exporter" in " ".join(out.split())
    assert "1 more pods have devices without a series" in " ".join(out.split())
    [asked] = [one for one in api.seen if one.path.endswith("gpu-operator/pods")]
    assert asked.query["labelSelector"] == "app=dcgm"


@pytest.mark.parametrize(
    ("services", "said"),
    [
        pytest.param(listed(), "no Service has the label app=nvidia-dcgm-exporter", id="none"),
        pytest.param(failure(403, "Forbidden"), "rights to list services and pods", id="forbidden"),
    ],
)
async def test_idle_without_an_exporter_is_one_line(user: User, services: Any, said: str) -> None:
    user.api.script("GET /api/v1/services", services)

    result = await user.types("top", "pods", "--idle", "--server", user.api.url)

    assert (result.status, result.out) == (1, "")
    assert said in result.err
    assert "--metrics-url URL" in result.err
    assert len(result.err.splitlines()) == 1


async def test_watch_repeats_the_table(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuctl.commands.top.WATCH_S", 0.01)
    answer = reply(json.loads(msgspec.json.encode(CAPACITY)))
    user.api.script("GET /capacity", answer, answer, failure(404, "", "the leader is gone"))

    result = await user.types("top", "--watch", "--server", user.api.url)

    assert result.status == 1
    assert result.out.count("3 nodes") == 2
    assert "the leader is gone" in result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("top", "--idle"), "gpuctl top pods --idle", id="idle-namespaces"),
        pytest.param(("top", "--watch", "-o", "json"), "--watch prints a table only", id="watch"),
    ],
)
async def test_options_of_top_that_exclude_each_other(
    user: User, words: tuple[str, ...], said: str
) -> None:
    result = await user.types(*words)

    assert result.status != 0
    assert said in result.err
