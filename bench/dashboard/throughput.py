"""Pods per second of this scheduler, observed and not, in alternating rounds.

    python -m bench.dashboard.throughput [--nodes 1000] [--pods 2000] [--rounds 3]

The backlog of ``bench/throughput``, on one control plane. In every other round a process listens to
the events of each page as a browser does, and another one scrapes the metrics every 15 s as
Prometheus does, both from the start of the scheduler on. The last line is JSON; ``ratio`` is the
time with them by the time without.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from bench.control_plane import without_kubelets
from bench.observer import dumps
from bench.rounds import alternating, finished, load, summary
from bench.schedulers import Ours, SchedulerUnderTest, apply_roles
from bench.throughput import GPUS, backlog
from tools.controlplane import ControlPlane
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.controlplane.process import Running

#: Listens to a page until it is ended; the scheduler may not be there yet.
LISTENER = """
import sys, time, urllib.request
while True:
    try:
        with urllib.request.urlopen(sys.argv[1]) as stream:
            while stream.read1(1 << 20):
                pass
    except OSError:
        time.sleep(0.2)
"""
#: Scrapes until it is ended; the first time when the scheduler serves.
SCRAPER = """
import sys, time, urllib.request
while True:
    try:
        with urllib.request.urlopen(sys.argv[1]) as page:
            page.read()
        time.sleep(15)
    except OSError:
        time.sleep(0.2)
"""
LISTENED = ("overview", "nodes", "waiting", "teams", "health")


@dataclass
class WithPages(Ours):
    """The scheduler with open pages and a Prometheus."""

    name: str = "with_pages"

    def start(self) -> Running:
        """Start it, cold, after its observers."""
        pages, health = (f"{LOOPBACK}:{port}" for port in free_ports(2))
        self.settings = {"decisionsAddress": pages, "healthAddress": health}
        url = f"http://{pages}/dashboard/events?page="
        words = [(LISTENER, url + page) for page in LISTENED]
        words.append((SCRAPER, f"http://{health}/metrics"))
        observers = [subprocess.Popen([sys.executable, "-c", *both]) for both in words]
        return _Observed(super().start(), observers)


class _Observed(Running):
    """The scheduler's process; its end is that of the observers, too."""

    def __init__(self, running: Running, observers: list[subprocess.Popen[bytes]]) -> None:
        super().__init__(running.name, running.pid, running.mark, running.child)
        self._observers = observers

    def stop(self, patience_s: float = 15.0) -> None:
        """Stop all of them."""
        for observer in self._observers:
            observer.kill()
            observer.wait()
        super().stop(patience_s)


def compare(plane: ControlPlane, contestants: list[SchedulerUnderTest], options: Any) -> Any:
    """All rounds, alternating; the medians and the ratio."""
    results: dict[str, list[dict[str, float]]] = {one.name: [] for one in contestants}
    for number, contestant in alternating(contestants, options.rounds):
        outcome = backlog(plane, contestant, options.pods)
        results[contestant.name].append(outcome)
        print(f"round {number} {contestant.name}: {dumps(outcome)}", flush=True)
    report: dict[str, Any] = {name: summary(rounds) for name, rounds in results.items()}
    plain, pages = report["ours"], report["with_pages"]
    report["ratio"] = round(plain["pods_per_s"] / pages["pods_per_s"], 3)
    report["cpu_ratio"] = round(pages["cpu_s"] / plain["cpu_s"], 3)
    report["nodes"], report["pods"] = options.nodes, options.pods
    return report


def main() -> None:
    """Start a control plane without kubelets, run the rounds, print the JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard.throughput")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with without_kubelets() as (plane, directory):
        apply_roles(plane)
        finished(load(plane, "nodes", str(options.nodes), str(GPUS)))
        contestants: list[SchedulerUnderTest] = [
            Ours(plane, directory / "ours"),
            WithPages(plane, directory / "pages"),
        ]
        print(dumps(compare(plane, contestants, options)), flush=True)


if __name__ == "__main__":
    main()
