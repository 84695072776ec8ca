"""The webhooks that the API server called for each created pod, by its own audit log.

The log has the name of each called webhook, whether the pod was admitted without its answer, and
for a request above half a second the time that webhooks took. No clock of a test is read, so a
slow machine changes no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from tests.controlplane.audit_log import of_pods
from tools.controlplane import ControlPlane, wait_until

CALLED: Final = "mutation.webhook.admission.k8s.io/"
UNANSWERED: Final = "failed-open."
WAITED: Final = (
    "apiserver.latency.k8s.io/mutating-webhook",
    "apiserver.latency.k8s.io/validating-webhook",
)
#: The parts of a duration in the format of Go.
SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
PART: Final = re.compile(r"([\d.]+)(h|ms|m|s|µs|ns)")


class WebhookCalls(NamedTuple):
    """The calls for one pod; ``waited_s`` is 0.0 if the whole request took under half a second."""

    called: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    waited_s: float = 0.0


def webhook_calls(
    cp: ControlPlane, namespace: str, names: Collection[str]
) -> dict[str, WebhookCalls]:
    """The calls for the creation of each of these pods; waits until all are in the log."""
    found: dict[str, WebhookCalls] = {}

    def is_complete() -> bool:
        found.update(_read(cp, namespace, frozenset(names)))
        return found.keys() == {*names}

    # The API server writes an event after its response.
    wait_until(is_complete, what=f"the audit events of {len(names)} pods of {namespace}")
    return found


def _read(cp: ControlPlane, namespace: str, names: frozenset[str]) -> dict[str, WebhookCalls]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    found = {}
    for event in of_pods(cp, namespace).events():
        name = event.get("objectRef", {}).get("name")
        is_creation = event["verb"] == "create" and event["requestURI"].partition("?")[0] == path
        if is_creation and name in names and "dryRun" not in event["requestURI"]:
            found[name] = calls_of(event.get("annotations", {}))
    return found


def admitted_without_answer(cp: ControlPlane, namespace: str) -> int:
    """How many pods of a namespace were created although a webhook did not answer."""
    events = of_pods(cp, namespace).events()
    calls = (calls_of(event.get("annotations", {})) for event in events)
    return sum(1 for call in calls if call.unanswered)


def calls_of(annotations: dict[str, str]) -> WebhookCalls:
    """The calls in the annotations of one audit event."""
    calls: list[dict[str, Any]] = [json.loads(text) for text in _values(annotations, CALLED)]
    return WebhookCalls(
        called=tuple(str(call["webhook"]) for call in calls),
        unanswered=_values(annotations, UNANSWERED),
        waited_s=sum(duration_s(annotations.get(key, "")) for key in WAITED),
    )


def _values(annotations: dict[str, str], prefix: str) -> tuple[str, ...]:
    return tuple(text for key, text in sorted(annotations.items()) if key.startswith(prefix))


def duration_s(text: str) -> float:
    """A duration in the format of Go, in seconds."""
    return sum(float(number) * SECONDS[unit] for number, unit in PART.findall(text))
