"""The product on a real API server under attacks, kills and outages; ``make chaos`` runs it.

    python -m tests.chaos [--minutes 30] [--seed N] [--pods-per-minute 40]

It prints the seed first and what happened last, and ends with 1 if anything was violated. The same
seed draws the same mix again; how the machine times it is not drawn.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.chaos import oracle
from tests.chaos.faults import Faults
from tests.chaos.honest import Honest
from tests.chaos.kubelet import LIMITS_MIB, Kubelet, Life
from tests.chaos.scene import PROGRAMS, Scene, staged
from tests.chaos.storm import Storm
from tests.chaos.windows import Windows

SHOWN_MAX: Final = 40
TELL_S: Final = 60.0


class Run:
    """One run on a scene, and what came of it."""

    def __init__(self, scene: Scene, seed: int, minutes: float, pods_per_minute: float) -> None:
        rng = random.Random(seed)
        storm, faults, honest = (random.Random(rng.random()) for _ in range(3))
        self._scene = scene
        self._duration_s = minutes * 60
        self._windows = Windows()
        self._kubelets = {
            program: [Kubelet(product, program, self._windows) for product in scene.replicas]
            for program in PROGRAMS
        }
        count = max(1, round(minutes * pods_per_minute))
        self._wanted = count
        self._honest = Honest(scene, honest, self._windows, count, self._duration_s)
        self._storm = Storm(scene, storm)
        self._faults = Faults(scene, self._kubelets, faults, self._windows)
        self.violations: list[str] = []
        self.latency = oracle.Latency()

    def play(self) -> None:
        """All of it; the last honest pods are waited for when the faults are over."""
        with ExitStack() as ends:
            for kubelet in (one for ones in self._kubelets.values() for one in ones):
                ends.enter_context(kubelet)
            ends.enter_context(self._honest)
            with self._storm, self._faults:
                until = time.monotonic() + self._duration_s
                while (left := until - time.monotonic()) > 0:
                    time.sleep(min(TELL_S, left))
                    self._tell()
            self._honest.wait_placed()
        self._judge()

    def _tell(self) -> None:
        ends = sum(len(life.ends) for life in self._lives())
        done = sum(count.done for count in self._storm.counts.values())
        print(
            f"{time.strftime('%H:%M:%S')} {self._honest.told.created} honest pods, {done} attacks, "
            f"{self._windows.count} faults, {ends} programs ended by themselves",
            flush=True,
        )

    def _lives(self) -> list[Life]:
        return [one.life for ones in self._kubelets.values() for one in ones]

    def _judge(self) -> None:
        log = self._scene.plane.audit_log
        assert log is not None, "the scene has an audit log"
        found, senseless = oracle.records(log, self._scene.namespaces)
        self.latency = oracle.latency(found[1:], self._windows)
        self.violations += senseless
        self.violations += oracle.twice(found)
        self.violations += oracle.late(self.latency, self._wanted)
        self.violations += self._honest.told.problems
        self.violations += self._faults.problems
        for life in self._lives():
            self.violations += [*life.ends, *life.over_limit]

    def table(self) -> str:
        """What happened, in figures."""
        lines = [f"{'attack':28} {'who':26} {'done':>5} {'refused':>8} {'not sent':>9}"]
        for name, count in self._storm.counts.items():
            lines.append(
                f"{name:28} {count.who:26} {count.done:5} {count.refused:8} {count.unsent:9}"
            )
        lines += ["", *(f"{name:28} {n:32}" for name, n in self._faults.done.items()), ""]
        for life in self._lives():
            limit = LIMITS_MIB[life.name.rpartition("/")[2]]
            lines.append(
                f"{life.name:28} {life.kills} kills, {len(life.ends)} ends by itself, "
                f"peak {life.peak_mib:.0f} of {limit} MiB"
            )
        told, waits = self._honest.told, self.latency
        lines += [
            "",
            f"{told.created} honest pods: {told.kinds}",
            f"placed {len(waits.waits)}, of which {waits.touched} waited in one of "
            f"{self._windows.count} windows; waits outside of them:",
            f"p50 {waits.at(0.5):.3f} s, p99 {waits.at(0.99):.3f} s, most {waits.at(1.0):.3f} s",
        ]
        return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Run once and print the result."""
    parser = argparse.ArgumentParser(prog="make chaos", description="attacks, kills and outages")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed without")
    parser.add_argument("--pods-per-minute", type=float, default=40.0)
    told = parser.parse_args(words)
    seed = random.SystemRandom().randrange(10**6) if told.seed is None else told.seed
    again = f"make chaos ARGS='--minutes {told.minutes:g} --seed {seed}'"
    print(f"seed {seed}; again: {again}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    with staged(directory) as scene:
        run = Run(scene, seed, told.minutes, told.pods_per_minute)
        run.play()
    print(run.table())
    if not run.violations:
        shutil.rmtree(directory)
        print("nothing was violated")
        return 0
    print(f"\n{len(run.violations)} violations:")
    for text in run.violations[:SHOWN_MAX]:
        print(f"  {text}")
    print(f"again: {again}\nlogs: {directory}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
