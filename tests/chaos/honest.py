"""Pods of well-behaved tenants: created all the time, deleted after a while.

There is always room for the next one, so whatever one waits for is a fault of ours. Mapped pods
take devices that no other pod of the run holds.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from scheduler.model import well_known
from tests.chaos.scene import MAPPED, Scene
from tests.chaos.windows import Windows
from tests.controlplane.hostile import BIG, GPU, SMALL
from tests.controlplane.tenants import REFUSALS, Tenant
from tests.controlplane.workloads import Json, cuda, node_of, pod, why
from tools.controlplane import ApiError, ControlPlaneError

LOOK_S: Final = 0.5
STAY_S: Final = (3.0, 10.0)
#: So many at once have room on the scene's nodes, whatever kinds they are.
ALIVE_MAX: Final = 12
LAST_S: Final = 60.0
KINDS: Final = ("gpu", "gpus", "mig-2g", "mig-1g", "map", "cpu")


@dataclass(slots=True)
class PodCounts:
    """What became of the honest pods, as their owners saw it."""

    created: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Honest:
    """Creates ``count`` pods within ``duration_s``, in a thread of its own."""

    def __init__(
        self, scene: Scene, rng: random.Random, windows: Windows, count: int, duration_s: float
    ) -> None:
        self._scene = scene
        self._rng = rng
        self._windows = windows
        self._pace_s = duration_s / count
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="honest", daemon=True)
        self._free = [(node, device) for node, count in MAPPED.items() for device in range(count)]
        self._held: dict[str, tuple[str, int]] = {}
        self._leaves: dict[str, float] = {}
        self._alive: dict[str, Tenant] = {}
        self._next: tuple[str, Tenant, Json] | None = None
        self.told = PodCounts()

    def __enter__(self) -> Honest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LAST_S)

    def wait_placed(self) -> None:
        """No more pods come; those that have no node after a last patience are problems."""
        self._stop.set()
        self._thread.join(LAST_S)
        deadline = time.monotonic() + LAST_S
        while (waiting := self._waiting()) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        self.told.problems += [f"{name} was never placed: {text}" for name, text in waiting]

    def _waiting(self) -> list[tuple[str, str]]:
        items = [*self._scene.bob.pods(), *self._scene.carol.pods()]
        return [(item["metadata"]["name"], why(item)) for item in items if not node_of(item)]

    def _run(self) -> None:
        due, look = time.monotonic(), time.monotonic()
        while not self._stop.wait(min(0.1, self._pace_s)):
            now = time.monotonic()
            try:
                if now >= due and len(self._alive) < ALIVE_MAX:
                    self._create()
                    due = max(due + self._pace_s, now - 5.0)
                if now >= look:
                    self._look(now)
                    look = now + LOOK_S
            except ApiError as error:
                self._answered_badly(error)
            except ControlPlaneError:
                continue  # the API server is away; the same pod is tried again

    def _answered_badly(self, error: ApiError) -> None:
        if error.status in REFUSALS and not self._windows.is_open(time.time()):
            self.told.problems.append(f"an honest request was refused: {error}"[:400])
            self._next = None

    def _create(self) -> None:
        if self._next is None:
            self._next = self._newcomer()
        kind, tenant, body = self._next
        name = body["metadata"]["name"]
        try:
            stored = tenant.create(body)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            stored = tenant.client.get(tenant.path("Pod", name))  # the answer to it was lost
        self._next = None
        self._alive[name] = tenant
        self.told.created += 1
        self.told.kinds[kind] = self.told.kinds.get(kind, 0) + 1
        if kind == "map" and cuda(stored) is None:
            self._not_mutated(name, tenant)

    def _not_mutated(self, name: str, tenant: Tenant) -> None:
        """Its owner creates another one, as documented."""
        if not self._windows.is_open(time.time()):
            self.told.problems.append(f"{name} was admitted without its environment")
        tenant.client.delete(tenant.path("Pod", name))

    def _newcomer(self) -> tuple[str, Tenant, Json]:
        name = f"honest{self.told.created}-0"
        kind = self._rng.choice(KINDS if self._free else KINDS[:-2])
        if kind == "map":
            place = self._free.pop(self._rng.randrange(len(self._free)))
            self._held[name] = place
            # The second line makes each text one of its own: equal ones may share their devices.
            text = f"0={place[0]}:{place[1]}\n{self.told.created + 1}={place[0]}:0\n"
            return kind, self._scene.carol, pod(name, annotations={well_known.MAP: text})
        wanted = {
            "gpu": {GPU: "1"},
            "gpus": {GPU: "2"},
            "mig-2g": {BIG: "1"},
            "mig-1g": {SMALL: "1"},
            "cpu": {"cpu": "100m"},
        }
        return kind, self._scene.bob, pod(name, limits=wanted[kind])

    def _look(self, now: float) -> None:
        """Delete pods past their lifetime, and release what deleted pods held."""
        seen: set[str] = set()
        for tenant in (self._scene.bob, self._scene.carol):
            for item in tenant.pods():
                name = item["metadata"]["name"]
                seen.add(name)
                if node_of(item) and now >= self._leaves.setdefault(
                    name, now + self._rng.uniform(*STAY_S)
                ):
                    tenant.client.delete_if_there(tenant.path("Pod", name))
        for name in self._alive.keys() - seen:
            del self._alive[name]
            self._leaves.pop(name, None)
            if name in self._held:
                self._free.append(self._held.pop(name))
