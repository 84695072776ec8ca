"""The mix of attacks: which comes next is the seed's to say, and none stays for ever.

Every kind is drawn equally often. Of each at most a few are there at once, so that the number of
hostile objects and connections is bounded; when one goes, the next may come.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tests.chaos import attacks, outsider
from tests.chaos.attacks import Attack, Undo
from tests.chaos.scene import Scene
from tests.controlplane.tenants import REFUSALS
from tools.controlplane import ApiError, ControlPlaneError
from tools.product import ROOT

PAUSE_S: Final = (0.3, 1.5)
STAY_S: Final = (5.0, 40.0)
#: Connections are held for so long, then their program ends by itself.
HELD_S: Final = (3, 20)
WORKERS: Final = 2


@dataclass(slots=True)
class Count:
    """What became of one kind."""

    who: str
    done: int = 0
    refused: int = 0
    unsent: int = 0


def _of_outsider(name: str) -> Attack:
    def begin(scene: Scene, rng: random.Random, _: str) -> Undo:
        product = rng.choice(scene.replicas)
        words = [product.webhook_port, product.health_port, rng.randint(*HELD_S)]
        command = [sys.executable, "-m", "tests.chaos.outsider", name, *map(str, words)]
        child = subprocess.Popen(
            [*command, str(rng.randrange(10**6))], cwd=ROOT, stderr=subprocess.DEVNULL
        )

        def undo() -> None:
            if child.poll() is None:
                child.kill()
            child.wait()

        return undo

    return Attack(name, "outsider", 1, begin)


DECK: Final = (*attacks.ATTACKS, *map(_of_outsider, outsider.ATTACKS))


class Storm:
    """Attacks in a few threads until it is left; then everything is taken away again."""

    def __init__(self, scene: Scene, rng: random.Random) -> None:
        self._scene = scene
        self._rng = rng
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._deck: list[Attack] = []
        self._alive: Counter[str] = Counter()
        self._undos: list[tuple[float, Attack, Undo]] = []
        self._number = 0
        self.counts = {attack.name: Count(attack.who) for attack in DECK}
        self._threads = [
            threading.Thread(target=self._run, name=f"storm{n}", daemon=True)
            for n in range(WORKERS)
        ]

    def __enter__(self) -> Storm:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        for _at, _attack, undo in self._undos:
            with contextlib.suppress(ControlPlaneError):
                undo()

    def _run(self) -> None:
        rng = random.Random(self._draw_seed())
        while not self._stop.wait(rng.uniform(*PAUSE_S)):
            self._take_away()
            attack, name = self._next()
            if attack is not None:
                self._do(attack, name, rng)

    def _draw_seed(self) -> int:
        with self._lock:
            return self._rng.randrange(10**9)

    def _next(self) -> tuple[Attack | None, str]:
        with self._lock:
            if not self._deck:
                self._deck = list(DECK)
                self._rng.shuffle(self._deck)
            attack = self._deck.pop()
            if self._alive[attack.name] >= attack.alive_max:
                return None, ""
            self._alive[attack.name] += 1
            self._number += 1
            return attack, f"evil{self._number}"

    def _do(self, attack: Attack, name: str, rng: random.Random) -> None:
        count = self.counts[attack.name]
        try:
            undo = attack.begin(self._scene, rng, name)
        except ControlPlaneError as error:
            is_refused = isinstance(error, ApiError) and error.status in REFUSALS
            with self._lock:
                self._alive[attack.name] -= 1
                count.refused += is_refused
                count.unsent += not is_refused  # the API server is away
            return
        with self._lock:
            count.done += 1
            self._undos.append((time.monotonic() + rng.uniform(*STAY_S), attack, undo))

    def _take_away(self) -> None:
        now = time.monotonic()
        with self._lock:
            due = [entry for entry in self._undos if entry[0] <= now]
            self._undos = [entry for entry in self._undos if entry[0] > now]
        for _, attack, undo in due:
            try:
                undo()
            except ControlPlaneError:  # the API server is away; later
                with self._lock:
                    self._undos.append((now + 2.0, attack, undo))
                continue
            with self._lock:
                self._alive[attack.name] -= 1
