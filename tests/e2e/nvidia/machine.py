"""The real node with NVIDIA's driver, and NVIDIA's programs on it as its operator runs them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.e2e.agent import GPU
from tests.e2e.claims import DRIVER, SLICES, devices
from tests.e2e.containers import Json
from tests.e2e.new_node import renew
from tests.e2e.nvidia.driver import Driver
from tests.e2e.nvidia.stack import Stack
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.process import tail
from tools.realnode import RealNode

DEVICE_PLUGIN, DISCOVERY, DRA_DRIVER = (
    "nvidia-device-plugin",
    "gpu-feature-discovery",
    "gpu-kubelet-plugin",
)
LABELS: Final = "nvidia.com/"
#: The classes of the chart of NVIDIA's DRA driver: name, the attribute ``type``, and more.
CLASSES: Final[tuple[tuple[str, str, Json], ...]] = (
    ("gpu.nvidia.com", "gpu", {"extendedResourceName": GPU}),
    ("mig.nvidia.com", "mig", {}),
)


class Machine:
    """One node; a kind of GPU is installed, then programs are started."""

    def __init__(self, node: RealNode, stack: Stack, directory: Path) -> None:
        self.node, self._stack = node, stack
        self._plane: ControlPlane = node.plane
        self._directory = directory
        self.driver = Driver(stack, directory)
        self._running: set[str] = set()

    def install(self, board: str, gpus: int, **more: Any) -> None:
        """A node that is new, with these GPUs (see ``Driver.install``)."""
        self.stop()
        self.driver.install(board, gpus, **more)
        renew(self.node, {})
        words = f"mountpoint -q /proc/driver || mount --bind {self.driver.proc} /proc/driver"
        self._run_inside("sh", "-c", words)

    # --- NVIDIA's programs --------------------------------------------------------------------

    def start_device_plugin(self, *flags: str, config: str = "", **offered: int) -> None:
        """Start the device plugin and return when the node advertises ``gpu=8``."""
        words = [
            f"--driver-root-ctr-path={self.driver.root}",
            f"--driver-root={self.driver.root}",
            f"--nvidia-cdi-hook-path={self._stack.program('nvidia-cdi-hook')}",
            "--device-list-strategy=cdi-cri",
            "--mps-root=",
            *self._config_file(config),
            *flags,
        ]
        self._start(DEVICE_PLUGIN, words)
        self.wait_advertised(**offered)

    def start_dra_driver(self, *gates: str) -> list[Json]:
        """Start the DRA driver and return its devices; its classes are those of its chart."""
        for name, kind, more in CLASSES:
            self._apply_class(name, kind, more)
        words = [
            f"--node-name={self.node.name}",
            "--namespace=kube-system",
            "--image-name=none",
            "--cdi-root=/var/run/cdi",
            f"--nvidia-driver-root={self.driver.root}",
            f"--container-driver-root={self.driver.root}",
            f"--nvidia-cdi-hook-path={self._stack.program('nvidia-cdi-hook')}",
            f"--kubeconfig={self._plane.kubeconfig}",
            *([f"--feature-gates={','.join(gates)}"] if gates else []),
        ]
        self._start(DRA_DRIVER, words)
        log = self.node.log(DRA_DRIVER)
        wait_until(self._is_published, what="the slices of the node", last=lambda: tail(log))
        return devices(self._plane, self.node)

    def discover(self, *flags: str, config: str = "") -> dict[str, str]:
        """Run GPU feature discovery once, and label the node as node feature discovery does."""
        out = self._directory / "labels"
        words = [
            "--oneshot",
            "--no-timestamp",
            "--use-node-feature-api=false",
            f"--kubeconfig={self._plane.kubeconfig}",
            f"--driver-root-ctr-path={self.driver.root}",
            f"--output-file={out}",
            *self._config_file(config),
            *flags,
        ]
        self._run_inside(*self._with_driver(DISCOVERY, words))
        labels = dict(line.split("=", 1) for line in out.read_text().split())
        path = f"/api/v1/nodes/{self.node.name}"
        self._plane.client.patch(path, {"metadata": {"labels": labels}})
        return labels

    def stop(self, *names: str) -> None:
        """Stop these programs, or all; the slices of a stopped DRA driver are deleted."""
        for name in names or sorted(self._running):
            if name in self._running:
                self._running.discard(name)
                self.node.end(name)
            if name == DRA_DRIVER:
                self._delete_slices()

    def _start(self, name: str, words: list[str]) -> None:
        self.stop(name)
        self._running.add(name)
        self.node.run(name, self._with_driver(name, words))

    def _with_driver(self, name: str, words: list[str]) -> list[str]:
        variables = {
            **self.driver.environment,
            "NODE_NAME": self.node.name,
            "NAMESPACE": "kube-system",
        }
        pairs = [f"{key}={value}" for key, value in variables.items()]
        return ["/usr/bin/env", *pairs, str(self._stack.program(name)), *words]

    def _run_inside(self, *words: str) -> None:
        done = subprocess.run(
            self.node.inside(words), capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{words[0]}: {done.stderr[-2000:]}"

    def _config_file(self, text: str) -> list[str]:
        if not text:
            return []
        path = self._directory / "plugin.yaml"
        path.write_text(text)
        return [f"--config-file={path}"]

    def _apply_class(self, name: str, kind: str, more: Json) -> None:
        text = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": text}}], **more},
        }
        self._plane.kubectl("apply", "-f", "-", input=json.dumps(body))

    # --- what the API server shows ------------------------------------------------------------

    def wait_advertised(self, **offered: int) -> None:
        """``gpu=8, mig_1g__10gb=7``: units of ``nvidia.com/gpu`` and of a MIG profile."""
        wanted = {
            f"{LABELS}{name.replace('__', '.').replace('_', '-')}": str(count)
            for name, count in offered.items()
        }
        path = f"/api/v1/nodes/{self.node.name}"

        def is_there() -> bool:
            there: Json = self._plane.client.get(path)["status"]["allocatable"]
            return wanted.items() <= there.items()

        log = self.node.log(DEVICE_PLUGIN)
        wait_until(is_there, what=f"{wanted} to be allocatable", last=lambda: tail(log))

    def _slices(self) -> list[Json]:
        items = self._plane.client.get(SLICES)["items"]
        return [one for one in items if one["spec"].get("nodeName") == self.node.name]

    def _is_published(self) -> bool:
        """Whether every slice of the node's pool is there, with all its GPUs."""
        slices = self._slices()
        pool = slices[0]["spec"]["pool"] if slices else {"resourceSliceCount": -1}
        return len(slices) == pool["resourceSliceCount"]

    def _delete_slices(self) -> None:
        for one in self._slices():
            self._plane.client.delete_if_there(f"{SLICES}/{one['metadata']['name']}")
