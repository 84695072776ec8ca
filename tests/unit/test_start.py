"""What is imported and checked before the watches start, and never at a start."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scheduler.__main__ import AUTHORITIES, without_authorities

ROOT = Path(__file__).resolve().parents[2]
#: The watches start without these; a thread imports them meanwhile.
LATER = ("scheduler.app", "scheduler.decide", "scheduler.loop", "scheduler.plugins")
#: Slow imports that no start needs: exec plugins and developers' tracebacks.
NEVER = ("kubernetes", "rich", "cryptography")


@pytest.mark.parametrize(
    ("module", "excluded"),
    [
        pytest.param("scheduler.start", (*LATER, *NEVER, "prometheus_client"), id="watches"),
        pytest.param("scheduler.app", NEVER, id="program"),
    ],
)
def test_start_does_not_import_what_it_does_not_need(
    module: str, excluded: tuple[str, ...]
) -> None:
    code = (
        f"import sys, scheduler.__main__, {module};"
        f"print([name for name in {excluded!r} if sys.modules.get(name)])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("before", [None, "/a/file"])
def test_system_authorities_are_left_out_of_the_imports_only(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv(AUTHORITIES, raising=False)
    if before is not None:
        monkeypatch.setenv(AUTHORITIES, before)

    with without_authorities():
        assert ssl.create_default_context().cert_store_stats()["x509"] == 0

    assert os.environ.get(AUTHORITIES) == before


async def test_bad_file_of_a_replica_ends_the_start_before_a_request(tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config, kubeconfig = written(tmp_path, f"http://127.0.0.1:{port}")
    words = ("-m", "scheduler", "--config", str(config), "--kubeconfig", str(kubeconfig))

    async with server:
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, *words), cwd=ROOT, stderr=asyncio.subprocess.PIPE
        )
        _, said = await started.communicate()

    assert started.returncode == 1
    assert said.decode().startswith("gpu-scheduler: $.forward: ")
    assert asked == []


def written(folder: Path, server: str) -> tuple[Path, Path]:
    """A configuration whose replicas have no files, and a kubeconfig of an API server."""
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": "a"}}],
        "contexts": [context],
    }
    forward = {"address": "127.0.0.1:0", "certDir": str(folder), "caFile": str(folder / "ca.crt")}
    forward |= {"serverName": "scheduler", "tokenFile": str(folder / "token")}
    config = {
        "apiVersion": "gpu-scheduler.io/v1",
        "kind": "GpuSchedulerConfiguration",
        "forward": forward,
    }
    paths = (folder / "scheduler.yaml", folder / "kubeconfig")
    for path, body in zip(paths, (config, kubeconfig), strict=True):
        path.write_text(yaml.safe_dump(body))
    return paths
