"""Alternating rounds of schedulers on one control plane: load, namespaces, events, memory."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from bench.load import IN_FLIGHT, Request
from bench.observer import Observer
from bench.process_memory import memory_mib
from bench.schedulers import SchedulerUnderTest
from tools.controlplane import Client, ControlPlane, wait_until
from tools.controlplane.process import Running, tail

BOUND_S = 180.0
EVENTS_S = 30.0
DELETED_AT_ONCE = 500
DELETED_S = 900.0
_numbers = itertools.count(1)


def alternating(
    contestants: Sequence[SchedulerUnderTest], rounds: int
) -> Iterator[tuple[int, SchedulerUnderTest]]:
    """The order of the rounds, as (number from 1, scheduler): each one is first every other
    time.
    """
    for number in range(rounds):
        for contestant in contestants if number % 2 == 0 else contestants[::-1]:
            yield number + 1, contestant


def load(plane: ControlPlane, *words: str) -> subprocess.Popen[bytes]:
    """Start the load generator in a process of its own."""
    command = [sys.executable, "-m", "bench.load", str(plane.kubeconfig), *words]
    return subprocess.Popen(command)


def send(
    plane: ControlPlane,
    file: Path,
    requests: Iterable[Request],
    rate: float = 0,
    in_flight: int = IN_FLIGHT,
) -> subprocess.Popen[bytes]:
    """Let the load generator send these requests; ``file`` is for them."""
    file.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in requests))
    return load(plane, "requests", str(file), str(rate), str(in_flight))


def finished(process: subprocess.Popen[bytes]) -> None:
    """Wait for the load generator; its failure fails the benchmark."""
    if process.wait(timeout=BOUND_S) != 0:
        raise RuntimeError("the load generator failed")


class Namespace:
    """A new namespace with a default ServiceAccount; its pods are deleted at once at the end."""

    def __init__(self, plane: ControlPlane) -> None:
        self.name = f"bench-{next(_numbers)}"
        self._plane = plane

    def __enter__(self) -> str:
        client = self._plane.client
        client.create("/api/v1/namespaces", {"metadata": {"name": self.name}})
        client.create(
            f"/api/v1/namespaces/{self.name}/serviceaccounts", {"metadata": {"name": "default"}}
        )
        return self.name

    def __exit__(self, *_: object) -> None:
        client = self._plane.client
        path = f"/api/v1/namespaces/{self.name}/pods"
        delete_all(client, path)


def delete_all(client: Client, path: str) -> None:
    """Delete every object of a collection, a page at a time: the API server ends a request after a
    minute, and on a busy machine it does not delete thousands of pods in that time.
    """

    def is_empty() -> bool:
        if not client.get(f"{path}?limit=1")["items"]:
            return True
        client.delete(f"{path}?gracePeriodSeconds=0&limit={DELETED_AT_ONCE}")
        return False

    wait_until(is_empty, what=f"an empty {path}", timeout_s=DELETED_S)


def scheduled_events(plane: ControlPlane, namespace: str) -> int:
    """The number of pods with a Scheduled event."""
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    items = plane.client.request("GET", path, timeout_s=60)["items"]
    return len({item["regarding"]["name"] for item in items if item["reason"] == "Scheduled"})


def schedule(
    plane: ControlPlane, contestant: SchedulerUnderTest, seen: Observer, pods: int
) -> dict[str, float]:
    """Run a scheduler from its cold start until it has bound the pods of a namespace and written
    their Scheduled events; returns what it used.
    """
    process = contestant.start()
    try:
        seen.wait(pods, BOUND_S, process.is_alive)
        wait_until(
            lambda: scheduled_events(plane, seen.namespace) == pods,
            what=f"{pods} Scheduled events",
            timeout_s=EVENTS_S,
        )
        return usage(process)
    except (RuntimeError, TimeoutError) as error:
        raise RuntimeError(f"{error}\n{tail(contestant.log, 40)}") from error
    finally:
        process.stop()


def usage(process: Running) -> dict[str, float]:
    """Peak memory (MiB) and CPU time (s) of a process and its children so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return {
        "rss_mib": memory_mib(process.pid)["peak_mib"],
        "cpu_s": round((int(fields[11]) + int(fields[12])) / 100, 2),
    }


def summary(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The median of every figure."""
    return {key: round(statistics.median(entry[key] for entry in rounds), 2) for key in rounds[0]}
