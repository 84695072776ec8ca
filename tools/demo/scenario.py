"""Runs the scenarios: the simulator's result, the real cluster, and the comparison."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from gpuctl.output.table import usage_of
from gpuctl.simulate.input import simulate
from gpuctl.simulate.manifests import Document, read
from scheduler.config import Config, Maps
from tools.demo.display import Display, picture
from tools.demo.environment import Environment
from tools.demo.expectations import (
    SCENARIOS,
    Expected,
    Line,
    Workloads,
    cell_count,
    differences,
    expected,
    scenario_file,
)
from tools.demo.observer import Observer

#: Seconds without a change of the pods after which cells that differ are reported. A slow machine
#: needs some; nothing changes any more where the product is broken on purpose.
PATIENCE_S: Final = 60.0
SABOTAGE_PATIENCE_S: Final = 10.0
POLL_S: Final = 0.2


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario: its objects in order, and the expected lines."""

    name: str
    documents: list[Document]
    expected: Expected


class Scenario:
    """Runs scenarios and prints them on one display."""

    def __init__(self, names: Sequence[str], display: Display) -> None:
        self.scenes = [
            Scene(name=name, documents=read([str(scenario_file(name))]), expected=expected(name))
            for name in names
        ]
        self.files = [scenario_file(name) for name in names]
        self.documents = [one for scene in self.scenes for one in scene.documents]
        self._display = display
        self._workloads = Workloads(self.documents)
        self._patience_s = PATIENCE_S

    def print_simulation(self) -> None:
        """Print the simulator's result for the same files."""
        report = simulate(self.documents, Config(maps=Maps(allow="all")))
        seen = Observer(rows=report.rows, usage=usage_of(report.cluster))
        files = " and ".join(path.name for path in self.files)
        self._display.say(f"the result of `gpuctl simulate` for {files} of {SCENARIOS}:")
        self._display.print(picture(self._workloads.lines(report.rows), seen))
        self._display.print("")

    def set_up(self, environment: Environment, sabotage: str | None) -> None:
        """Start all programs."""
        self._display.say("starting etcd, kube-apiserver, controllers and KWOK")
        environment.start_plane()
        count = environment.add_nodes(self.documents)
        self._display.say(
            f"the API server answers at {environment.plane.url} and has {count} nodes"
        )
        if sabotage is not None:
            self._patience_s = SABOTAGE_PATIENCE_S
        environment.start_product(sabotage)
        self._display.say("the scheduler leads, and the webhook is called over TLS")

    def play(self, environment: Environment) -> list[str]:
        """Apply the scenarios; returns the differing cells."""
        wrong: list[str] = []
        for scene in self.scenes:
            for document in scene.documents:
                if document.kind != "Node":
                    self._apply(environment, document, scene)
            lines = scene.expected.lines
            wrong += self._compare(environment.look(), lines, lines)
        for scene in self.scenes:
            if scene.expected.then is not None:
                wrong += self._act(environment, scene)
        return wrong

    def finish(self, environment: Environment) -> None:
        """Print the final table."""
        seen = environment.look()
        self._display.freeze()
        self._display.print("")
        self._display.print(picture(self._workloads.lines(seen.rows), seen))
        self._display.print("")

    def cells(self) -> int:
        """The number of compared cells of all scenarios."""
        return sum(
            cell_count(scene.expected.lines)
            + (cell_count(scene.expected.then.lines) if scene.expected.then else 0)
            for scene in self.scenes
        )

    # --- steps -------------------------------------------------------------------------------

    def _apply(self, environment: Environment, document: Document, scene: Scene) -> None:
        self._display.say(f"kubectl apply: {document.kind} {document.name}")
        environment.apply(document)
        wanted = [line for line in scene.expected.lines if _is_of(line, document)]
        self._until(environment, wanted, wanted)

    def _act(self, environment: Environment, scene: Scene) -> list[str]:
        then = scene.expected.then
        assert then is not None, "the caller checked it"
        before = {row.pod for row in environment.look().rows if row.node is None}
        self._display.say(f"kubectl delete: Pod {then.delete}")
        environment.delete_pod(then.delete)
        seen = self._until(environment, then.lines, (*scene.expected.lines, *then.lines))
        started = sorted(before & {row.pod for row in seen.rows if row.node is not None})
        if started:
            self._display.say(f"started by itself: {', '.join(started)}")
        wrong = self._compare(seen, then.lines, (*scene.expected.lines, *then.lines))
        return [f"after {then.delete} ended: {cell}" for cell in wrong]

    def _until(
        self, environment: Environment, wanted: Sequence[Line], known: Sequence[Line]
    ) -> Observer:
        """Poll until the lines are as expected, or have not changed for long."""
        lines: list[Line] = []
        changed = time.monotonic()
        while True:
            seen = environment.look()
            before, lines = lines, self._workloads.lines(seen.rows)
            if lines != before:
                changed = time.monotonic()
            self._display.show(lines, seen)
            is_right = not self._compare(seen, wanted, known)
            if is_right or time.monotonic() - changed > self._patience_s:
                self._display.settled(lines)
                return seen
            time.sleep(POLL_S)

    def _compare(self, seen: Observer, wanted: Sequence[Line], known: Sequence[Line]) -> list[str]:
        """The differing cells of the pods in ``known``."""
        pods = {line.pods for line in known}
        found = [line for line in self._workloads.lines(seen.rows) if line.pods in pods]
        return differences(wanted, found)


def _is_of(line: Line, document: Document) -> bool:
    """Whether a line belongs to an object; each pod of a StatefulSet has its own line."""
    return document.name in (line.pods, line.pods.rpartition("-")[0])
