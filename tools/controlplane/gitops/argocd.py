"""A real ArgoCD: its repo server and both controllers, as processes beside a control plane.

    with ArgoCD.start(plane, directory) as argo:
        plane.kubectl("apply", "-f", ...)
        argo.settled("my-application", revision)

It syncs its own cluster under the in-cluster address, so our GitOps files are used unchanged except
for the repository's URL. It has its own user, so that the audit log identifies its writes.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import time
from pathlib import Path
from typing import Any, Final

from tools.controlplane import process
from tools.controlplane.client import ApiError, wait_until
from tools.controlplane.components import is_healthy
from tools.controlplane.control_plane import ControlPlane
from tools.controlplane.errors import ControlPlaneError, ProcessDied
from tools.controlplane.gitops import parts
from tools.controlplane.gitops.parts import Part, Place
from tools.controlplane.ports import LOOPBACK

USER: Final = "argocd"
APPLICATIONS: Final = f"/apis/argoproj.io/v1alpha1/namespaces/{parts.NAMESPACE}/applications"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
READY_S: Final = 120.0
SETTLE_S: Final = 240.0
REFRESH_PAUSE_S: Final = 2.0
REFRESH: Final = "argocd.argoproj.io/refresh"
#: Distinguishes refresh requests; ArgoCD removes it with the request.
REFRESH_STAMP: Final = "argocd.argoproj.io/refresh-timestamp"


class ArgoCD:
    """A running ArgoCD; made by ``start``."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane = plane
        kubeconfig = plane.kubeconfig_for_user(USER, ["system:masters"])
        self._place = Place.choose(directory.absolute(), kubeconfig)
        self._running: list[process.Running] = []
        self._stamps = itertools.count(1)

    @classmethod
    def start(cls, plane: ControlPlane, directory: Path) -> ArgoCD:
        """Install its CRDs and settings, start it, and wait until all parts are ready."""
        argo = cls(plane, directory)
        try:
            argo._begin()
        except BaseException:  # after an interrupt too, no program keeps running
            argo.close()
            raise
        return argo

    def _begin(self) -> None:
        parts.furnish(self._place)
        for path in parts.kinds():
            self.plane.kubectl("apply", "--server-side", "-f", str(path))
        for kind in parts.KINDS:
            self.plane.client.wait_for(f"{_CRDS}/{kind}", _is_served, what=f"{kind} to be served")
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(parts.objects()))
        for part in parts.PARTS:
            self._start(part)

    def _start(self, part: Part) -> None:
        log = self._place.log(part.name)
        words = parts.command(part, self._place)
        running = process.start(part.name, words, log=log, home=self._place.directory)
        self._running.append(running)

        def is_ready() -> bool:
            if not running.is_alive():
                raise ProcessDied(part.name, process.tail(log), str(log))
            return self._answers(part)

        wait_until(is_ready, what=f"{part.name} to be ready; see {log}", timeout_s=READY_S)

    def _answers(self, part: Part) -> bool:
        port = part.health(self._place)
        if part.health_path is not None:
            url = f"http://{LOOPBACK}:{port}{part.health_path}"
            return is_healthy(url, self.plane.client.identity)
        with contextlib.suppress(OSError):
            socket.create_connection((LOOPBACK, port), timeout=5).close()
            return True
        return False

    def __enter__(self) -> ArgoCD:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all parts in reverse order of the start."""
        while self._running:
            self._running.pop().stop()

    # --- its applications ---------------------------------------------------------------------

    def application(self, name: str) -> Any:
        """An Application as the API server has it, or None."""
        try:
            return self.plane.client.get(f"{APPLICATIONS}/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def refresh(self, name: str) -> Any:
        """Refresh an Application and return it."""
        stamp = str(next(self._stamps))
        notes = {REFRESH: "normal", REFRESH_STAMP: stamp}
        path = f"{APPLICATIONS}/{name}"
        self.plane.client.patch(path, {"metadata": {"annotations": notes}})

        def is_done(seen: Any) -> bool:
            return REFRESH not in seen["metadata"].get("annotations", {})

        return self.plane.client.wait_for(path, is_done, what=f"{name} to be compared")

    def settled(self, name: str, revision: str, *, timeout_s: float = SETTLE_S) -> Any:
        """Wait until an Application is Synced at a commit, Healthy, and idle.

        Only a refresh shows it, and each one renders and compares the chart, so they are
        ``REFRESH_PAUSE_S`` apart, unless the status says that the Application is settled.
        """
        last: list[Any] = [None]
        refreshed = float("-inf")

        def is_at(status: Any) -> bool:
            return is_well(status) and status["sync"]["revision"] == revision

        def is_settled() -> bool:
            nonlocal refreshed
            seen = self.application(name)
            if seen is None:
                return False
            is_due = time.monotonic() - refreshed >= REFRESH_PAUSE_S
            if not is_due and not is_at(seen.get("status", {})):
                return False
            last[0] = self.refresh(name)["status"]
            refreshed = time.monotonic()
            return is_at(last[0])

        what = f"{name} to be Synced and Healthy at {revision}"
        try:
            wait_until(is_settled, what=what, timeout_s=timeout_s)
        except ControlPlaneError as error:
            raise ControlPlaneError(f"{error}; last seen: {_brief(last[0])}") from error
        return last[0]


def _is_served(kind: Any) -> bool:
    conditions = kind["status"]["conditions"] or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def is_well(status: Any) -> bool:
    """Whether an Application's status says Synced and Healthy, and its last sync went well."""
    return bool(
        status.get("sync", {}).get("status") == "Synced"
        and status.get("health", {}).get("status") == "Healthy"
        and status.get("operationState", {}).get("phase") == "Succeeded"
    )


def _brief(status: Any) -> str:
    """The status of an Application for an error message."""
    if status is None:
        return "nothing"
    amiss = [
        each
        for each in status.get("resources", [])
        if each.get("status") != "Synced" or each.get("health", {}).get("status") != "Healthy"
    ]
    keys = ("sync", "health", "conditions", "operationState")
    seen = {key: status[key] for key in keys if key in status}
    seen.get("operationState", {}).pop("syncResult", None)
    seen.get("sync", {}).pop("comparedTo", None)
    return json.dumps({**seen, "amiss": amiss})[:4000]
