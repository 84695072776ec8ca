"""Pods whose tier the scheduler has chosen, also on a slow machine.

The webhook admits a pod unchanged if the scheduler does not answer within a second. A user of such
a cluster creates the pod again, and so does this watcher.
"""

from __future__ import annotations

import re
import ssl
import urllib.request
from typing import Final

from tests.controlplane.webhook_calls import webhook_calls
from tests.controlplane.workloads import Json, Watcher
from tests.patience import PATIENCE_S
from tools.controlplane import ControlPlane
from tools.controlplane.ports import LOOPBACK
from tools.product import Product

TRIES: Final = 20
UNANSWERED: Final = re.compile(r"^gpu_scheduler_webhook_unanswered_queries_total (\S+)$", re.M)


def unanswered(product: Product) -> float:
    """How many queries of a webhook were not answered in time."""
    tls = ssl.create_default_context(cafile=str(product.plane.ca_certificate))
    url = f"https://{LOOPBACK}:{product.webhook_port}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE_S, context=tls) as answer:
        return sum(map(float, UNANSWERED.findall(answer.read().decode())))


class AnsweredWatcher(Watcher):
    """Creates a bare pod again until the scheduler has answered for it."""

    def __init__(self, plane: ControlPlane, namespace: str, product: Product) -> None:
        super().__init__(plane, namespace)
        self._product = product

    def create(self, body: Json) -> Json:
        """Create an object; returns it as stored."""
        if body["kind"] != "Pod":
            return super().create(body)
        name = body["metadata"]["name"]
        for _ in range(TRIES):
            before = unanswered(self._product)
            made = super().create(body)
            calls = webhook_calls(self.plane, self.namespace, [name])[name]
            if not calls.unanswered and unanswered(self._product) == before:
                return made
            path = self.path("Pod", name)
            self.client.delete(path, {"gracePeriodSeconds": 0})
            self.client.wait_for(path, lambda seen: seen is None, what=f"{name} to be gone")
        raise AssertionError(f"the scheduler did not answer for {name} in {TRIES} tries")
