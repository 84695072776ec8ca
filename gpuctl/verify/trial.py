"""Test pods in a namespace of their own, which is removed at the end.

Each wait is bounded. A pod that waits longer is an answer (None), not an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from gpuctl.verify.hosts import Raw
from scheduler.model import well_known
from scheduler.watch.client import ApiError, Client

#: Durations are measured to within this time.
POLL_S: Final = 0.05
#: The label of the namespace; it permits gpu-scheduling-map.
LABELS: Final = {
    well_known.MAPS_ALLOWED: "allowed",
    "app.kubernetes.io/managed-by": "gpuctl-verify",
}
#: As Pod Security admission demands at the level restricted.
POD_SECURITY: Final = {
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
#: Lower than any workload's, and Never: a test pod preempts no pod, and is the first to go.
LOWEST: Final = -1_000_000_000
#: Test pods run on every node, unless a check is about taints.
TOLERATE_ALL: Final = ({"operator": "Exists"},)


class Trial:
    """The namespace of one run, its pods, and the measured durations.

    The pods have a PriorityClass of the run, with the name of the namespace.
    """

    def __init__(
        self, client: Client, namespace: str, *, scheduler: str, image: str, timeout_s: float
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.scheduler = scheduler
        self.timeout_s = timeout_s
        self._image = image
        #: What was measured -> seconds.
        self.seconds: dict[str, list[float]] = {}
        self._created: dict[str, float] = {}

    async def get(self, path: str, **params: str) -> Raw:
        """One object or list."""
        content = await self.client.request("GET", path, params=params or None)
        answer: Raw = msgspec.json.decode(content)
        return answer

    async def begin(self) -> None:
        """Create the PriorityClass and the namespace, or nothing."""
        lowest = {
            "metadata": {"name": self.namespace},
            "value": LOWEST,
            "preemptionPolicy": "Never",
            "description": "test pods of gpuctl verify",
        }
        await self._post(PRIORITY_CLASSES, lowest)
        body = {"metadata": {"name": self.namespace, "labels": LABELS}}
        try:
            await self._post("/api/v1/namespaces", body)
        except ApiError:
            await self._remove_class()
            raise

    async def end(self) -> bool:
        """Remove the namespace, its pods and the PriorityClass; whether the namespace is gone."""
        path = f"/api/v1/namespaces/{self.namespace}"
        await self.client.request("DELETE", path)
        await self._remove_class()
        # Without the right to delete pods the namespace takes them along, only later.
        with contextlib.suppress(ApiError):
            await self.clear()
        return await self.until(lambda: self._is_gone(path))

    async def _remove_class(self) -> None:
        await self.client.request("DELETE", f"{PRIORITY_CLASSES}/{self.namespace}")

    async def clear(self) -> bool:
        """Delete all test pods; whether they are gone."""
        body = msgspec.json.encode({"gracePeriodSeconds": 0})
        await self.client.request("DELETE", self._pods, body)
        return await self.until(self._has_no_pods)

    async def create(
        self,
        name: str,
        limits: Mapping[str, str] | None = None,
        *,
        annotations: Mapping[str, str] | None = None,
        command: tuple[str, ...] = ("sleep", "300"),
        **spec: Any,
    ) -> Raw:
        """Create one pod of the scheduler; retried while the ServiceAccount does not exist yet."""
        container = {
            "name": "verify",
            "image": self._image,
            "command": command,
            "securityContext": CONTAINER_SECURITY,
            "resources": {"limits": limits or {}},
        }
        body = {
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {
                "schedulerName": self.scheduler,
                "priorityClassName": self.namespace,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "securityContext": POD_SECURITY,
                "tolerations": TOLERATE_ALL,
                "containers": [container],
                **spec,
            },
        }
        ends = time.monotonic() + self.timeout_s
        while True:
            try:
                self._created[name] = time.monotonic()
                return await self._post(self._pods, body)
            except ApiError as error:
                is_early = error.status == 403 and "serviceaccount" in error.message
                if not is_early or time.monotonic() > ends:
                    raise
            await asyncio.sleep(POLL_S)

    async def bound(self, name: str, measure: str = "place") -> str | None:
        """The node of a pod that was just created; None if it stays pending.

        The seconds since its creation are kept under ``measure``.
        """
        node = await self.seen(name, lambda pod: pod["spec"].get("nodeName"))
        if node is not None:
            self.seconds.setdefault(measure, []).append(
                round(time.monotonic() - self._created[name], 3)
            )
        return None if node is None else str(node)

    async def rejected(self, name: str) -> str | None:
        """The message of a pod that was rejected; None without one."""
        found = await self.seen(name, _rejection)
        return None if found is None else str(found)

    async def seen(self, name: str, what: Callable[[Raw], Any]) -> Any:
        """The first true value of ``what`` for the pod; None after the time limit."""
        ends = time.monotonic() + self.timeout_s
        while time.monotonic() < ends:
            try:
                if found := what(await self.get(f"{self._pods}/{name}")):
                    return found
            except ApiError as error:
                if error.status != 404:
                    raise
            await asyncio.sleep(POLL_S)
        return None

    async def message(self, name: str) -> str:
        """The scheduler's present answer about a pending pod."""
        return _rejection(await self.get(f"{self._pods}/{name}")) or "no answer of the scheduler"

    async def log(self, name: str) -> str | None:
        """The log of a pod that ran to its end; None if it did not."""
        phase = await self.seen(name, _ended)
        if phase != "Succeeded":
            return None
        content = await self.client.request("GET", f"{self._pods}/{name}/log", accept="*/*")
        return content.decode(errors="replace")

    async def is_there(self, name: str) -> bool:
        """Whether a pod exists and is not terminating."""
        try:
            pod = await self.get(f"{self._pods}/{name}")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return "deletionTimestamp" not in pod["metadata"]

    async def event(self, name: str, reason: str) -> bool:
        """Whether the pod has an event with this reason."""
        selector = f"involvedObject.name={name},reason={reason}"
        path = f"/api/v1/namespaces/{self.namespace}/events"

        async def is_written() -> bool:
            return bool((await self.get(path, fieldSelector=selector))["items"])

        return await self.until(is_written)

    async def until(self, check: Callable[[], Any]) -> bool:
        """Wait for a condition; whether it held in time."""
        ends = time.monotonic() + self.timeout_s
        while time.monotonic() < ends:
            if await check():
                return True
            await asyncio.sleep(POLL_S)
        return False

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def _post(self, path: str, body: Raw) -> Raw:
        content = await self.client.request("POST", path, msgspec.json.encode(body))
        answer: Raw = msgspec.json.decode(content)
        return answer

    async def _has_no_pods(self) -> bool:
        return not (await self.get(self._pods))["items"]

    async def _is_gone(self, path: str) -> bool:
        try:
            await self.get(path)
        except ApiError as error:
            return error.status == 404
        return False


def _rejection(pod: Raw) -> str | None:
    conditions = pod.get("status", {}).get("conditions") or ()
    found = (one for one in conditions if one.get("type") == "PodScheduled")
    return next((one.get("message") for one in found if one.get("status") == "False"), None)


def _ended(pod: Raw) -> str | None:
    phase = pod.get("status", {}).get("phase")
    return phase if phase in ("Succeeded", "Failed") else None
