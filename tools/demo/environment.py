"""The demo's environment: a real control plane, fake nodes, our scheduler and webhook.

It starts all programs and stops them by process id. A failure is a DemoError with a message and
the end of the log.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import yaml

from gpuctl.simulate.apiserver_defaults import node_with_status
from gpuctl.simulate.manifests import Document, Raw, object_of
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.commands import (
    API_SERVER,
    CONTROLLER_MANAGER,
    ETCD,
    KWOK,
    NODE_ANNOTATION,
)
from tools.controlplane.fake_nodes import is_ready
from tools.controlplane.ports import LOOPBACK
from tools.controlplane.process import tail
from tools.demo.observer import Observer, look
from tools.fake_operator import FakeOperator
from tools.product import ROOT, Product

EXAMPLES: Final = ROOT / "examples"
EXAMPLES_NAMESPACE: Final = "gpu-examples"
NAMESPACE: Final = "default"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES: Final = "/api/v1/nodes"
#: A Unix socket's path may have 107 bytes; ours are called place.sock.
DIRECTORY_LENGTH_MAX: Final = 80
PROGRAMS: Final = (ETCD, API_SERVER, CONTROLLER_MANAGER, KWOK)
SABOTAGES: Final = ("webhook", "maps")


class DemoError(Exception):
    """The demo failed; the text contains the reason and the end of the log, if there is one."""


class Environment:
    """The running programs, in one directory."""

    def __init__(self, directory: Path, *, detached: bool = False) -> None:
        if len(str(directory)) > DIRECTORY_LENGTH_MAX:
            raise DemoError(f"{directory}: the path is too long for a Unix socket; choose another")
        self.directory = directory
        self._detached = detached
        self._plane: ControlPlane | None = None
        self._product: Product | None = None
        self._fake_gpus: FakeOperator | None = None

    @property
    def plane(self) -> ControlPlane:
        """The control plane, once it is started."""
        assert self._plane is not None, "start_plane comes first"
        return self._plane

    @property
    def decisions_url(self) -> str:
        """The URL of the decisions API."""
        return f"http://{LOOPBACK}:{self._started().decisions_port}"

    @property
    def health_url(self) -> str:
        """The URL of probes and metrics."""
        return f"http://{LOOPBACK}:{self._started().health_port}"

    def _started(self) -> Product:
        assert self._product is not None, "start_product comes first"
        return self._product

    def __enter__(self) -> Environment:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if kind is not None or not self._detached:
            self.close()

    # --- starting ----------------------------------------------------------------------------

    def start_plane(self) -> None:
        """Start the control plane; the first time, build its programs."""
        self._plane = ControlPlane.start(self.directory / "cluster", detached=self._detached)

    def add_nodes(self, documents: Iterable[Document]) -> int:
        """Create the nodes of the scenarios, wait until they are ready, and return their number."""
        made = [_fake(document) for document in documents if document.kind == "Node"]
        for node in made:
            self.plane.client.create(NODES, node)
        wait_until(self._nodes_ready, what=f"{len(made)} nodes to be Ready")
        return len(made)

    def start_product(self, sabotage: str | None = None) -> None:
        """Start scheduler and webhook; ``sabotage`` breaks one of them, for the demo's test."""
        config: Mapping[str, Any] = {"maps": {"allow": "none"}} if sabotage == "maps" else {}
        directory = self.directory / "product"
        self._product = Product(self.plane, directory, config=config, detached=self._detached)
        self._product.start(webhook=sabotage != "webhook")

    def start_fake_gpus(self) -> None:
        """Start the fake GPU operator, and create the nodes and the namespace of the examples."""
        values = (EXAMPLES / "cluster/fake-gpu-values.yaml").read_text(encoding="utf-8")
        directory = self.directory / "fakegpu"
        self._fake_gpus = FakeOperator(self.plane, directory, detached=self._detached)
        self._fake_gpus.install()
        self._fake_gpus.configure(yaml.safe_load(values)["topology"])
        self._fake_gpus.start()
        self.plane.kubectl("apply", "-f", str(EXAMPLES / "cluster/nodes.yaml"))
        self.plane.kubectl("create", "namespace", EXAMPLES_NAMESPACE)
        wait_until(self._has_gpus, what="the nodes of the examples to have GPUs")

    def _has_gpus(self) -> bool:
        nodes = self.plane.client.get(NODES)["items"]
        return any("nvidia.com/gpu" in node["status"]["allocatable"] for node in nodes)

    def _nodes_ready(self) -> bool:
        return all(is_ready(node) for node in self.plane.client.get(NODES)["items"])

    # --- requests ----------------------------------------------------------------------------

    def apply(self, document: Document) -> None:
        """Create one object, as a user does."""
        words = ("apply", "--namespace", NAMESPACE, "-f", "-")
        self.plane.kubectl(*words, input=json.dumps(document.raw))

    def delete_pod(self, name: str) -> None:
        """Delete one pod, as a user does."""
        self.plane.client.delete(f"{PODS}/{name}")

    def look(self) -> Observer:
        """The current state by the API server; a DemoError if a program has ended."""
        self._check()
        client = self.plane.client
        return look(client.get(NODES)["items"], client.get(PODS)["items"])

    def _check(self) -> None:
        product = self._product
        for name in product.pids if product else ():
            assert product is not None
            if not product.is_running(name):
                end = "\n".join(product.log(name).splitlines()[-12:])
                raise DemoError(f"{name} has ended; its last lines:\n{end}")
        alive = self.plane.processes
        for name in PROGRAMS:
            if name not in alive:
                raise DemoError(f"{name} has ended; its last lines:\n{tail(self.plane.log(name))}")

    # --- ending ------------------------------------------------------------------------------

    def pids(self) -> dict[str, int]:
        """The process ids of scheduler and webhook, and of the fake GPU operator if it runs."""
        product = self._product.pids if self._product else {}
        return product | ({"fakegpu": self._fake_gpus.pid} if self._fake_gpus else {})

    def close(self) -> None:
        """Stop all programs in reverse order."""
        with contextlib.ExitStack() as stack:
            if self._plane is not None:
                stack.callback(self._plane.close)
            if self._product is not None:
                stack.callback(self._product.close)
            if self._fake_gpus is not None:
                stack.callback(self._fake_gpus.stop)


def _fake(document: Document) -> Raw:
    """The node for KWOK, with its allocatable as capacity."""
    raw = node_with_status(document).raw
    key, value = NODE_ANNOTATION
    meta = object_of(raw["metadata"])
    annotations = {**object_of(meta.get("annotations")), key: value}
    status = {**raw["status"], "capacity": raw["status"]["allocatable"]}
    node: Raw = {**raw, "metadata": {**meta, "annotations": annotations}, "status": status}
    return node
