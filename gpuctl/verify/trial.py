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
from gpuctl.verify.trial_namespace import TrialNamespace
from scheduler.watch.client import ApiError, Client, Unreachable

#: Durations are measured to within this time.
POLL_S: Final = 0.05
#: The kubelet pulls the image in these states (kubelet, sync_result.go and kuberuntime).
PULLING: Final = ("ContainerCreating", "PodInitializing", "Pulling")
#: All waits for images together.
PULL_MAX_S: Final = 600.0
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
#: Test pods run on every node, unless a check is about taints.
TOLERATE_ALL: Final = ({"operator": "Exists"},)


class Trial:
    """The namespace of one run, its pods, and the measured durations.

    The pods have a PriorityClass of the run, with the name of the namespace. ``on_pull`` gets the
    pod, the reason and the seconds of each wait for an image.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        scheduler: str,
        image: str,
        timeout_s: float,
        on_pull: Callable[[str, str, float], None] = lambda name, why, seconds: None,
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.scheduler = scheduler
        self.timeout_s = timeout_s
        self._image = image
        self._own = TrialNamespace(client, namespace)
        #: Seconds in which containers waited for their image; they do not count as waits.
        self.pulled_s = 0.0
        self._on_pull = on_pull
        #: What was measured -> seconds.
        self.seconds: dict[str, list[float]] = {}
        self._created: dict[str, float] = {}

    async def get(self, path: str, **params: str) -> Raw:
        """One object or list."""
        content = await self.client.request("GET", path, params=params or None)
        answer: Raw = msgspec.json.decode(content)
        return answer

    async def begin(self) -> None:
        """Create the namespace and its PriorityClass."""
        await self._own.create()

    async def end(self) -> bool:
        """Remove all that was created; whether the namespace is gone.

        Raises ApiError or Unreachable if something stays (``left``).
        """
        if not self.left:
            return True
        try:
            await self._own.delete(self.timeout_s)
        finally:
            # Without the right to delete pods the namespace takes them along, only later.
            with contextlib.suppress(ApiError, Unreachable):
                await self.clear()
        return await self.until(self._own.is_gone)

    @property
    def left(self) -> tuple[str, ...]:
        """What ``end`` could not remove."""
        return self._own.left

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
        """The first true value of ``what`` for the pod; None after the time limit, in which waits
        for the image do not count.
        """
        last = time.monotonic()
        ends = last + self.timeout_s
        while last < ends:
            why = ""
            try:
                pod = await self.get(f"{self._pods}/{name}")
                if found := what(pod):
                    return found
                why = _pulling(pod)
            except ApiError as error:
                if error.status != 404:
                    raise
            await asyncio.sleep(POLL_S)
            now = time.monotonic()
            if why and self.pulled_s < PULL_MAX_S:
                self.pulled_s += now - last
                ends += now - last
                self._on_pull(name, why, now - last)
            last = now
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

    async def trouble(self, name: str) -> str:
        """Why the container of a pod does not run: its reason and message; else its phase."""
        pod = await self.get(f"{self._pods}/{name}")
        waits = _waiting(pod)
        if waits:
            message = waits.get("message", "")
            return f"{waits.get('reason', 'waits')}{': ' if message else ''}{message}"
        return f"its phase is {pod.get('status', {}).get('phase', 'Pending')}"

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


def _rejection(pod: Raw) -> str | None:
    conditions = pod.get("status", {}).get("conditions") or ()
    found = (one for one in conditions if one.get("type") == "PodScheduled")
    return next((one.get("message") for one in found if one.get("status") == "False"), None)


def _waiting(pod: Raw) -> Raw:
    """The state of its container while that waits."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return next((one["state"]["waiting"] for one in statuses if "waiting" in one["state"]), {})


def _pulling(pod: Raw) -> str:
    """The reason while a placed pod waits for its image, and the image may still come."""
    reason = str(_waiting(pod).get("reason", ""))
    return reason if reason in PULLING else ""


def _ended(pod: Raw) -> str | None:
    phase = pod.get("status", {}).get("phase")
    return phase if phase in ("Succeeded", "Failed") else None
