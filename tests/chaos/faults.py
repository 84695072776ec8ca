"""Kills and outages, at times that a seed decides; each opens a window (``windows``)."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from tests.chaos.kubelet import Kubelet
from tests.chaos.scene import WATCH_SILENCE_S, Scene
from tests.chaos.windows import OUTAGE_GRACE_S, Windows
from tests.controlplane.proxy import KINDS
from tools.controlplane import ControlPlaneError

#: Between two faults: longer than a window, so that most of the run is none.
PAUSE_S: Final = (20.0, 40.0)
FIRST_S: Final = 8.0
AWAY_S: Final = (2.0, 8.0)
HOLE_S: Final = (WATCH_SILENCE_S + 1.0, WATCH_SILENCE_S + 6.0)


class Faults:
    """Does one after another, in a thread of its own; ``done`` counts them by kind."""

    def __init__(
        self,
        scene: Scene,
        kubelets: Mapping[str, list[Kubelet]],
        rng: random.Random,
        windows: Windows,
    ) -> None:
        self._scene = scene
        self._kubelets = kubelets
        self._rng = rng
        self._windows = windows
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []

    def __enter__(self) -> Faults:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """The API server is there again when this returns."""
        self._stop.set()
        self._thread.join(180)

    def _run(self) -> None:
        kinds: dict[str, Callable[[], None]] = {
            "kill -9 of a scheduler": lambda: self._rng.choice(self._kubelets["scheduler"]).kill(),
            "kill -9 of a webhook": lambda: self._rng.choice(self._kubelets["webhook"]).kill(),
            "API server away": self._api_server_away,
            "watches swallowed": self._watches_swallowed,
        }
        deck: list[str] = []
        pause_s = FIRST_S
        while not self._stop.wait(pause_s):
            if not deck:  # kills twice as often as outages
                deck = [*kinds, *list(kinds)[:2]]
                self._rng.shuffle(deck)
            name = deck.pop()
            try:
                kinds[name]()
            except ControlPlaneError as error:
                self.problems.append(f"{name}: {error}"[:400])
            self.done[name] += 1
            pause_s = self._rng.uniform(*PAUSE_S)

    def _api_server_away(self) -> None:
        """It is asked to end: what it has done is then in its audit log, which the oracle reads."""
        plane = self._scene.plane
        with self._windows.during(OUTAGE_GRACE_S):
            plane.stop_process("kube-apiserver")
            self._stop.wait(self._rng.uniform(*AWAY_S))
            plane.start_process("kube-apiserver")
            for name in ("kube-controller-manager", "kwok"):  # they are not as quick as ours
                plane.restart(name)

    def _watches_swallowed(self) -> None:
        """Of the first replica, whether it leads or not."""
        with self._windows.during(OUTAGE_GRACE_S):
            self._scene.proxy.silent.update(KINDS)
            self._stop.wait(self._rng.uniform(*HOLE_S))
            self._scene.proxy.heal()
