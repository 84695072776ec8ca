"""Watches pods from outside the schedulers and records the time of each Binding."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Sized
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from tools.controlplane import Client
from tools.controlplane.identity import Identity


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Condition(msgspec.Struct, frozen=True):
    type: str
    message: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    nominated_node_name: str = ""
    conditions: tuple[_Condition, ...] = ()


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Event(msgspec.Struct):
    type: str
    object: _Pod


_EVENT = msgspec.json.Decoder(_Event)


class Observer:
    """Follows one namespace's pods; ``bound`` maps a pod's name to the second of its Binding.

    ``explained`` is the same for the first condition with a message. ``nominated`` and ``deleted``
    have the second of the first nomination and the first deletion.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self.namespace = namespace
        self.bound: dict[str, float] = {}
        self.created: dict[str, float] = {}
        self.explained: dict[str, float] = {}
        self.nodes: dict[str, str] = {}
        self.nominated: float | None = None
        self.deleted: float | None = None
        self._identity = client.identity
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._version = client.get(self._path)["metadata"]["resourceVersion"]
        self._connection = _connect(self._identity)
        self._thread = threading.Thread(target=self._follow, name="observer", daemon=True)
        self._stopped = False

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        sock = self._connection.sock
        if sock is not None:
            sock.close()

    def wait(self, count: int, timeout_s: float, is_alive: Callable[[], bool]) -> None:
        """Wait until this many pods are bound; the error has the number of bound pods."""
        _wait_for(self.bound, count, "pods bound", timeout_s, is_alive)

    def wait_explained(self, count: int, timeout_s: float, is_alive: Callable[[], bool]) -> None:
        """The same for pods with a condition that has a message."""
        _wait_for(self.explained, count, "conditions written", timeout_s, is_alive)

    def _follow(self) -> None:
        """Watch repeatedly: the API server drops a watcher that cannot keep up."""
        while not self._stopped:
            try:
                self._watch()
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                if not self._stopped:
                    self._connection = _connect(self._identity)

    def _watch(self) -> None:
        query = urlencode({"watch": "true", "resourceVersion": self._version})
        headers = {"Accept": "application/json"}
        if self._identity.token is not None:
            headers["Authorization"] = f"Bearer {self._identity.token}"
        self._connection.request("GET", f"{self._path}?{query}", headers=headers)
        for line in self._connection.getresponse():
            self._take(_EVENT.decode(line))

    def _take(self, event: _Event) -> None:
        now = time.monotonic()
        pod = event.object
        self._version = pod.metadata.resource_version or self._version
        name = pod.metadata.name
        if event.type == "ADDED":
            self.created.setdefault(name, now)
        if self.deleted is None and event.type == "DELETED":
            self.deleted = now
        if self.nominated is None and pod.status.nominated_node_name:
            self.nominated = now
        if name not in self.explained and any(one.message for one in pod.status.conditions):
            self.explained[name] = now
        if event.type != "DELETED" and pod.spec.node_name and name not in self.bound:
            self.bound[name] = now
            self.nodes[name] = pod.spec.node_name


def _wait_for(
    seen: Sized, count: int, what: str, timeout_s: float, is_alive: Callable[[], bool]
) -> None:
    deadline = time.monotonic() + timeout_s
    while len(seen) < count:
        if not is_alive():
            raise RuntimeError(f"the process ended after {len(seen)} of {count} {what}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(seen)} of {count} {what} in {timeout_s:g} s")
        time.sleep(0.05)


def _connect(identity: Identity) -> http.client.HTTPSConnection:
    address = urlsplit(identity.server)
    context = ssl.create_default_context(cafile=str(identity.authority))
    if identity.certificate is not None:
        context.load_cert_chain(*identity.certificate)
    return http.client.HTTPSConnection(address.hostname or "", address.port, context=context)


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies; 0 without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def dumps(value: Any) -> str:
    """One compact line of JSON with rounded numbers."""
    return json.dumps(value, separators=(", ", ": "))
