"""Pods that have nothing to do with GPUs, created again and again while something else happens.

Whatever happens to the scheduler and its webhook, each one is admitted, and the API server calls no
webhook for it. So our webhook cannot delay it, however slow the machine is.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import Final

from tests.controlplane.webhook_calls import WebhookCalls, webhook_calls
from tests.e2e.containers import Json, shell_pod
from tools.controlplane import ControlPlane, ControlPlaneError, wait_until

EVERY_S: Final = 0.5
NO_CALLS: Final = WebhookCalls()


class Newcomers:
    """A thread that creates one, measures, and removes it again."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="newcomers", daemon=True)
        #: By name: the duration of the creation, for the log only.
        self.durations_s: dict[str, float] = {}
        self.refused: list[str] = []

    def __enter__(self) -> Newcomers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_one(self) -> None:
        """Return when one more has come."""
        came = len(self.durations_s)
        wait_until(lambda: len(self.durations_s) > came or bool(self.refused), what="a newcomer")

    def were_let_in(self) -> None:
        """Fail unless each one so far, and one more, was admitted without a call to a webhook."""
        self.wait_for_one()
        assert self.refused == []
        calls = webhook_calls(self._plane, self._namespace, [*self.durations_s])
        assert {name: seen for name, seen in calls.items() if seen != NO_CALLS} == {}

    @property
    def slowest_s(self) -> float:
        """How long the one took that took longest."""
        return max(self.durations_s.values())

    def _run(self) -> None:
        for number in itertools.count():
            self._come(f"newcomer-{number}")
            if self._stop.wait(EVERY_S):
                return

    def _come(self, name: str) -> None:
        # No scheduler places it: only its admission matters.
        body: Json = shell_pod(name, schedulerName="none")
        began = time.monotonic()
        try:
            self._plane.client.create(self._path, body)
            self.durations_s[name] = time.monotonic() - began
            self._plane.client.delete(f"{self._path}/{name}?gracePeriodSeconds=0")
        except ControlPlaneError as error:
            self.refused.append(str(error))
