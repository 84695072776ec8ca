"""The demo's story: what the simulator says, what the real thing does, and whether it is right."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from gpuctl.demo.display import Display, picture
from gpuctl.demo.environment import Environment
from gpuctl.demo.expectations import (
    Expected,
    Line,
    Workloads,
    cell_count,
    differences,
    expected,
    scenario_file,
)
from gpuctl.demo.observer import Observer
from gpuctl.manifests import Document, read
from gpuctl.simulation import simulate
from gpuctl.table import usage_of
from scheduler.config import Config, Maps

PATIENCE_S: Final = 10.0
POLL_S: Final = 0.2


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario: its objects in order, and what they must end in."""

    name: str
    documents: list[Document]
    expected: Expected


class Scenario:
    """Tells some scenarios on one screen."""

    def __init__(self, names: Sequence[str], screen: Display) -> None:
        self.scenes = [
            Scene(name=name, documents=read([str(scenario_file(name))]), expected=expected(name))
            for name in names
        ]
        self.documents = [one for scene in self.scenes for one in scene.documents]
        self._screen = screen
        self._workloads = Workloads(self.documents)

    def foretell(self) -> None:
        """Put the simulator's answer to the same files on the screen."""
        report = simulate(self.documents, Config(maps=Maps(allow="all")))
        seen = Observer(rows=report.rows, usage=usage_of(report.cluster))
        files = " ".join(f"{scene.name}.yaml" for scene in self.scenes)
        self._screen.say(f"what `gpuctl simulate {files}` says to the files of this demo:")
        self._screen.print(picture(self._workloads.lines(report.rows), seen))
        self._screen.print("")

    def set_up(self, stage: Environment, sabotage: str | None) -> None:
        """Start everything."""
        self._screen.say("now for real: starting etcd, kube-apiserver, controllers and KWOK")
        stage.start_plane()
        count = stage.add_nodes(self.documents)
        self._screen.say(f"the API server answers at {stage.plane.url} and has {count} nodes")
        stage.start_product(sabotage)
        self._screen.say("the scheduler leads, and the webhook is called over TLS")

    def play(self, stage: Environment) -> list[str]:
        """Apply the scenarios; returns the cells that are not as expected."""
        wrong: list[str] = []
        for scene in self.scenes:
            for document in scene.documents:
                if document.kind != "Node":
                    self._apply(stage, document, scene)
            lines = scene.expected.lines
            wrong += self._compare(stage.look(), lines, lines)
        for scene in self.scenes:
            if scene.expected.then is not None:
                wrong += self._act(stage, scene)
        return wrong

    def finish(self, stage: Environment) -> None:
        """Leave the last table on the screen."""
        seen = stage.look()
        self._screen.freeze()
        self._screen.print("")
        self._screen.print(picture(self._workloads.lines(seen.rows), seen))
        self._screen.print("")

    def cells(self) -> int:
        """How many cells are compared in all."""
        return sum(
            cell_count(scene.expected.lines)
            + (cell_count(scene.expected.then.lines) if scene.expected.then else 0)
            for scene in self.scenes
        )

    # --- steps -------------------------------------------------------------------------------

    def _apply(self, stage: Environment, document: Document, scene: Scene) -> None:
        self._screen.say(f"kubectl apply: {document.kind} {document.name}")
        stage.apply(document)
        wanted = [line for line in scene.expected.lines if _is_of(line, document)]
        self._until(stage, wanted, wanted)

    def _act(self, stage: Environment, scene: Scene) -> list[str]:
        then = scene.expected.then
        assert then is not None, "asked before"
        before = {row.pod for row in stage.look().rows if row.node is None}
        self._screen.say(f"kubectl delete: Pod {then.delete}")
        stage.delete_pod(then.delete)
        seen = self._until(stage, then.lines, (*scene.expected.lines, *then.lines))
        started = sorted(before & {row.pod for row in seen.rows if row.node is not None})
        if started:
            self._screen.say(f"started by itself: {', '.join(started)}")
        wrong = self._compare(seen, then.lines, (*scene.expected.lines, *then.lines))
        return [f"after {then.delete} ended: {cell}" for cell in wrong]

    def _until(self, stage: Environment, wanted: Sequence[Line], known: Sequence[Line]) -> Observer:
        """Watch until all is as wanted, or nothing has changed for as long as patience lasts."""
        lines: list[Line] = []
        changed = time.monotonic()
        while True:
            seen = stage.look()
            before, lines = lines, self._workloads.lines(seen.rows)
            if lines != before:
                changed = time.monotonic()
            self._screen.show(lines, seen)
            is_right = not self._compare(seen, wanted, known)
            if is_right or time.monotonic() - changed > PATIENCE_S:
                self._screen.settled(lines)
                return seen
            time.sleep(POLL_S)

    def _compare(self, seen: Observer, wanted: Sequence[Line], known: Sequence[Line]) -> list[str]:
        """The differing cells among the pods that ``known`` names."""
        pods = {line.pods for line in known}
        found = [line for line in self._workloads.lines(seen.rows) if line.pods in pods]
        return differences(wanted, found)


def _is_of(line: Line, document: Document) -> bool:
    """Whether a line is about the pods of an object; a StatefulSet's have lines of their own."""
    return document.name in (line.pods, line.pods.rpartition("-")[0])
