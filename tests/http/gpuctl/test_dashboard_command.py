"""``gpuctl dashboard``: the URL, the rights, and the next leader."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpuctl.__main__ import main
from gpuctl.cluster_access import Access
from gpuctl.commands.dashboard import AGAIN_S, follow
from gpuctl.input_error import NotReached
from tests.http.fakeapi import FakeApi, failure, reply
from tests.http.gpuctl.test_cluster_access import LEASE, REVIEW
from tests.patience import PATIENCE_S

HEALTH = "GET /dashboard/data/health"
#: Forwards to the server of the test, and ends when its file goes.
FORWARD = """#!/bin/sh
echo "$@" >> "$HERE/words"
echo "Forwarding from $SERVER -> 8090"
echo "Handling connection for 8090"
touch "$HERE/alive"
while [ -e "$HERE/alive" ]; do sleep 0.01; done
"""


def lease(pod: str) -> Any:
    return reply({"metadata": {}, "spec": {"holderIdentity": f"{pod}_1"}})


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: FakeApi) -> Path:
    """The folder of a kubectl that forwards to the fake server."""
    program = tmp_path / "kubectl"
    program.write_text(FORWARD)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.setenv("SERVER", api.url.removeprefix("http://"))
    monkeypatch.setenv("KUBECONFIG", str(_kubeconfig(tmp_path, api.url)))
    return tmp_path


def _kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
        "users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    return path


async def test_url_of_the_leader_is_printed_and_followed(
    api: FakeApi, kubectl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.script(LEASE, lease("one"), lease("one"), lease("two"))
    api.script(REVIEW, reply({"status": {"allowed": True}}, 201))
    api.script(HEALTH, reply({"kind": "DashboardPage"}))
    rests: asyncio.Queue[float] = asyncio.Queue()

    async def pause(seconds: float) -> None:
        rests.put_nowait(seconds)
        await asyncio.sleep(0)

    task = asyncio.create_task(follow(Access(), 8099, pause))
    words = kubectl / "words"
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not words.exists() or "pod/two" not in words.read_text():  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.005)
    finally:
        task.cancel()
        (kubectl / "alive").unlink(missing_ok=True)
        await asyncio.gather(task, return_exceptions=True)

    first, second = words.read_text().splitlines()[:2]
    assert first == "--namespace gpu-scheduler-system port-forward pod/one 8099:8090"
    assert second == "--namespace gpu-scheduler-system port-forward pod/two 8099:8090"
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == f"{api.url}/dashboard/"
    assert "the leader is now two" in said.err
    assert AGAIN_S in [rests.get_nowait() for _ in range(rests.qsize())]


@pytest.mark.parametrize(
    ("scripts", "problem"),
    [
        pytest.param(
            {LEASE: reply({"metadata": {}, "spec": {}})}, "names no leader", id="no-leader"
        ),
        pytest.param(
            {LEASE: lease("one"), REVIEW: reply({"status": {"allowed": False}}, 201)},
            "you may not forward to pod one",
            id="no-right",
        ),
        pytest.param(
            {
                LEASE: lease("one"),
                REVIEW: reply({"status": {"allowed": True}}, 201),
                HEALTH: failure(404, "", "unknown path"),
            },
            "set dashboard.enabled",
            id="switched-off",
        ),
    ],
)
async def test_what_is_missing_is_one_line(
    api: FakeApi, kubectl: Path, scripts: dict[str, Any], problem: str
) -> None:
    for path, answer in scripts.items():
        api.script(path, answer)

    with pytest.raises(NotReached, match=problem):
        async with asyncio.timeout(PATIENCE_S):
            await follow(Access(), 8099)
    (kubectl / "alive").unlink(missing_ok=True)


async def test_own_port_forward_is_checked_and_printed(api: FakeApi) -> None:
    api.script(HEALTH, reply({"kind": "DashboardPage"}))
    found = await asyncio.to_thread(CliRunner().invoke, main, ["dashboard", "--server", api.url])

    assert (found.exit_code, found.output) == (0, f"{api.url}/dashboard/\n")
