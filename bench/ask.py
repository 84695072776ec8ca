"""Seconds of ``gpuctl top``, ``free`` and ``why`` that ask the leader of a large cluster.

The product's scheduler lists a synthetic cluster from a local server. Each question is a process of
its own, as a user starts it, and then once more over one HTTP connection, which leaves the start of
Python out. Meanwhile the longest time for which the scheduler's loop answered nothing is measured.
Medians; the bar is 1 s for each command. The last line is JSON; exit status 1 above the bar.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from bench.observer import dumps
from bench.scale import big_cluster
from bench.scale.__main__ import parse_sizes
from bench.scale.list_server import ListServer
from tools.controlplane.ports import LOOPBACK, free_ports

SIZE: Final = "1000x20000"
NAMESPACE: Final = "team-07"
WAITING: Final = 200
BAR_S: Final = 1.0
READY_S: Final = 180.0
PROBE_S: Final = 0.005
#: Question -> the words of gpuctl, and the path of the decisions API.
QUESTIONS: Final = {
    "top": (("top",), "/capacity"),
    "top_nodes": (("top", "nodes"), "/capacity?holders=1"),
    "top_pods": (("top", "pods", "-o", "csv"), "/capacity?holders=1"),
    "free": (("free",), "/capacity?nodes=1"),
    "why": (("why", f"{NAMESPACE}/wait-7"), f"/decisions/{NAMESPACE}/wait-7"),
}


def waiting_pod(number: int) -> dict[str, Any]:
    """A pod that no node of the cluster has room for."""
    limits = {"nvidia.com/gpu": str(9 + number % 8)}
    return {
        "metadata": {"name": f"wait-{number}", "namespace": NAMESPACE, "uid": f"w-{number}"},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "containers": [{"name": "c", "resources": {"limits": limits}}],
        },
    }


@contextlib.asynccontextmanager
async def leader(nodes: int, pods: int, waiting: int) -> AsyncIterator[str]:
    """The decisions API of a scheduler that has seen the whole cluster and every waiting pod."""
    pending = [waiting_pod(number) for number in range(waiting)]
    server = ListServer(
        {
            "/api/v1/nodes": lambda: big_cluster.node_parts(nodes),
            "/api/v1/pods": lambda: big_cluster.pod_parts(pods, nodes, pending),
        }
    )
    health, decisions = free_ports(2)
    config = {
        "apiVersion": "gpu-scheduler.io/v1",
        "kind": "GpuSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "healthAddress": f"{LOOPBACK}:{health}",
        "decisionsAddress": f"{LOOPBACK}:{decisions}",
    }
    async with server.serving() as kubeconfig:
        with tempfile.NamedTemporaryFile("wb", suffix=".yaml") as file:
            file.write(msgspec.yaml.encode(config))
            file.flush()
            words = ["-m", "scheduler", "--config", file.name, "--kubeconfig", str(kubeconfig)]
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *words,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                url = f"http://{LOOPBACK}:{decisions}"
                await _ready(url, process, waiting)
                yield url
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()


async def _ready(url: str, process: asyncio.subprocess.Process, waiting: int) -> None:
    """Wait until every waiting pod has a decision; the id of a decision ends in its number."""
    latest = time.monotonic() + READY_S
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < latest:
            if process.returncode is not None:
                raise RuntimeError(f"the scheduler ended with {process.returncode}")
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{url}/decisions?limit=1") as response:
                    for newest in (await response.json()).get("decisions", ()):
                        if int(newest["id"].rpartition("-")[2]) >= waiting:
                            return
            await asyncio.sleep(0.2)
    raise TimeoutError(f"fewer than {waiting} decisions within {READY_S:g} s")


async def command_s(url: str, words: tuple[str, ...], folder: Path) -> float:
    """Seconds of one gpuctl process; its status is 2 where a pod waits."""
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpuctl", *words, "--server", url),
        env={**os.environ, "KUBECONFIG": str(folder / "absent")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    took = time.monotonic() - began
    if process.returncode not in (0, 2) or not output:
        raise RuntimeError(f"gpuctl {' '.join(words)}: {errors.decode().strip()}")
    return took


async def answer_s(session: aiohttp.ClientSession, url: str) -> tuple[float, int]:
    """Seconds and bytes of one answer of the decisions API."""
    began = time.monotonic()
    async with session.get(url) as response:
        content = await response.read()
        if response.status != 200:
            raise RuntimeError(f"{url}: {content.decode()}")
    return time.monotonic() - began, len(content)


async def longest_gap_s(url: str, stop: asyncio.Event) -> float:
    """The longest answer to a trivial question while the others are asked."""
    longest = 0.0
    async with aiohttp.ClientSession() as session:
        while not stop.is_set():
            longest = max(longest, (await answer_s(session, f"{url}/leader"))[0])
            await asyncio.sleep(PROBE_S)
    return longest


async def figures(nodes: int, pods: int, waiting: int, rounds: int) -> dict[str, Any]:
    """Every question, ``rounds`` times in turn."""
    report: dict[str, Any] = {"nodes": nodes, "pods": pods, "waiting": waiting}
    report["load"] = round(os.getloadavg()[0], 1)
    commands: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    answers: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with leader(nodes, pods, waiting) as url, aiohttp.ClientSession() as session:
            for number in range(rounds):
                for name, (words, _) in QUESTIONS.items():
                    commands[name].append(await command_s(url, words, Path(folder)))
                print(f"round {number}: {dumps({k: v[-1] for k, v in commands.items()})}")
            stop = asyncio.Event()
            gap = asyncio.create_task(longest_gap_s(url, stop))
            for _ in range(rounds):
                for name, (_, path) in QUESTIONS.items():
                    took, sizes[name] = await answer_s(session, f"{url}{path}")
                    answers[name].append(took)
            stop.set()
            report["longest_gap_s"] = round(await gap, 3)
    report["command_s"] = {name: round(statistics.median(v), 3) for name, v in commands.items()}
    report["answer_s"] = {name: round(statistics.median(v), 3) for name, v in answers.items()}
    report["answer_kib"] = {name: size // 1024 for name, size in sizes.items()}
    report["bar_s"] = BAR_S
    report["reached"] = all(took < BAR_S for took in report["command_s"].values())
    return report


def main() -> None:
    """Print a line per round, then the JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.ask",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", default=SIZE, help=f"NODESxPODS, by default {SIZE}")
    parser.add_argument("--waiting", type=int, default=WAITING, help="pods that wait")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    [(nodes, pods)] = parse_sizes(options.size)
    report = asyncio.run(figures(nodes, pods, options.waiting, options.rounds))
    print(dumps(report), flush=True)
    sys.exit(0 if report["reached"] else 1)


if __name__ == "__main__":
    main()
