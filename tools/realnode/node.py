"""One real node: containerd, a kubelet and a kube-proxy, on a control plane.

    with bridge() as address, ControlPlane.start(..., address=address) as plane:
        with RealNode.start(plane, directory) as node:
            node.load(archive)

They run in a sandbox (``sandbox.py``). Outside of the directory they only write cgroups and the
rules of Services, and no process remains if they are killed. At the end the pods are deleted, then
the programs are stopped by their process ids.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.controlplane import process
from tools.controlplane.client import wait_until
from tools.controlplane.commands import NODE_AUTHORIZATION
from tools.controlplane.control_plane import ControlPlane
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.fake_nodes import NODES, is_ready
from tools.controlplane.ports import free_ports
from tools.controlplane.programs.binaries import ensure
from tools.controlplane.programs.go_program import ensure_go_program
from tools.controlplane.programs.versions import NODE_PROGRAMS, PROGRAMS
from tools.image.layer import FOLDERS, Files, write_layer
from tools.image.oci import Image, write_archive
from tools.realnode import cgroups, services, settings
from tools.realnode.sandbox_processes import SandboxProcesses
from tools.realnode.settings import Places
from tools.realnode.snapshotter import best_snapshotter

PAUSE: Final = Path(__file__).with_name("pause")
CNI_PLUGINS: Final = tuple(name for name in NODE_PROGRAMS if PROGRAMS[name].module == "cni")
PODS_GONE_S: Final = 60.0
CONTAINERD, KUBELET = "containerd", "kubelet"


def api_server_flags(directory: Path) -> tuple[str, ...]:
    """The flags of an API server in this directory for connections with a kubelet."""
    pki = directory.absolute() / "pki"
    return (
        *NODE_AUTHORIZATION,
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={pki / 'client-admin.crt'}",
        f"--kubelet-client-key={pki / 'client-admin.key'}",
    )


def why_not() -> str | None:
    """The reason why no real node can run on this machine, or None."""
    if os.geteuid() != 0:
        return "a real node needs root: containerd makes mounts and a kubelet makes cgroups"
    return None


class RealNode:
    """A running node; made by ``start``."""

    def __init__(self, plane: ControlPlane, directory: Path, name: str) -> None:
        self.plane = plane
        self.name = name
        self.places = Places(directory.absolute())
        self._programs: dict[str, Path] = {}
        self._here = SandboxProcesses(self.places)
        self._services: services.Services | None = None

    @classmethod
    def start(
        cls,
        plane: ControlPlane,
        directory: Path,
        *,
        name: str = "real-node",
        labels: Mapping[str, str] | None = None,
    ) -> RealNode:
        """Start a node and return when it is Ready.

        The plane has the bridge's address and ``api_server_flags``.
        """
        problem = why_not()
        if problem is not None:
            raise ControlPlaneError(problem)
        node = cls(plane, directory, name)
        try:
            node._begin(labels or {})
        except BaseException:  # after an interrupt too, no program keeps running
            node.close()
            raise
        return node

    def _begin(self, labels: Mapping[str, str]) -> None:
        self._programs = ensure(NODE_PROGRAMS)
        pause = ensure_go_program(PAUSE)
        places = self.places
        for folder in (places.file("cni"), places.log("x").parent, places.plugins):
            folder.mkdir(parents=True, exist_ok=True)
        for plugin in CNI_PLUGINS:
            shutil.copy2(self._programs[plugin], places.plugins / plugin)
        self._write_settings()
        self._here.begin(places.binds)
        self._start_containerd()
        self.make_image(settings.PAUSE_IMAGE, {"/pause": pause}, entrypoint=["/pause"])
        self.start_kubelet()
        program, config = self._programs[services.NAME], places.file("proxy.json")
        self._services = services.Services(self.plane, self._here, program, config)
        self._services.start(self.name)
        if labels:
            path = f"{NODES}/{self.name}"
            self.plane.client.patch(path, {"metadata": {"labels": dict(labels)}})

    def _write_settings(self) -> None:
        places, (port,) = self.places, free_ports(1)
        self._port = port
        snapshotter = self._snapshotter = best_snapshotter(places.directory)
        text = settings.containerd(places, self._programs["runc"], snapshotter)
        places.file("containerd.toml").write_text(text)
        places.file("cni/10-bridge.conflist").write_text(settings.network())
        text = settings.kubelet(places, self.plane.ca_certificate, port)
        places.file("kubelet.json").write_text(text)

    def _start_containerd(self) -> None:
        config = self.places.file("containerd.toml")
        program = self._programs[CONTAINERD]
        # containerd finds its shim in its own directory; the configuration has the path of runc.
        self._here.spawn(CONTAINERD, [str(program), f"--config={config}"])
        self._here.wait(CONTAINERD, lambda: self._ctr("version").returncode == 0)

    # --- the kubelet --------------------------------------------------------------------------

    def start_kubelet(self) -> None:
        """Start the kubelet and return when the node is Ready."""
        user = f"system:node:{self.name}"
        kubeconfig = self.plane.kubeconfig_for_user(user, ["system:nodes"])
        words = [
            str(self._programs[KUBELET]),
            f"--config={self.places.file('kubelet.json')}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={settings.BRIDGE_ADDRESS}",
            f"--cert-dir={self.places.directory / 'kubelet-pki'}",
            "--v=2",
        ]
        self._here.spawn(KUBELET, words)
        self._here.wait(KUBELET, self._is_ready)

    def _is_ready(self) -> bool:
        # A node stays Ready for a while after its kubelet was killed, so check the kubelet as well.
        with contextlib.suppress(OSError):
            socket.create_connection((settings.BRIDGE_ADDRESS, self._port), timeout=5).close()
            return self._is_ready_node()
        return False

    def _is_ready_node(self) -> bool:
        nodes = self.plane.client.get(NODES)["items"]
        return any(one["metadata"]["name"] == self.name and is_ready(one) for one in nodes)

    def stop_kubelet(self, *, crash: bool = False) -> None:
        """Stop the kubelet; containers keep running."""
        self._here.end(KUBELET, crash=crash)

    def restart_kubelet(self, *, crash: bool = False) -> None:
        """Restart the kubelet."""
        self.stop_kubelet(crash=crash)
        self.start_kubelet()

    def restart_services(self) -> None:
        """Restart kube-proxy without its rules, for a recreated node."""
        assert self._services is not None
        self._services.close()
        self._services.start(self.name)

    # --- what runs there ----------------------------------------------------------------------

    def load(self, archive: Path) -> None:
        """Import the images of an archive, so that no image is pulled."""
        words = ["images", "import", "--local", "--snapshotter", self._snapshotter, str(archive)]
        done = self._ctr("-n", "k8s.io", *words)
        if done.returncode != 0:
            raise ControlPlaneError(f"{archive.name}: {done.stderr.strip()}")

    def make_image(self, name: str, files: Files, entrypoint: Sequence[str]) -> None:
        """Build an image of a few files on the node."""
        folder = self.places.directory
        layer = write_layer(folder / "layer.tar", files, FOLDERS)
        image = Image(name=name, layers=[layer], entrypoint=entrypoint)
        archive = write_archive(folder / "image.tar", [image])
        self.load(archive)
        archive.unlink()
        layer.path.unlink()

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a program among the node's mounts and processes."""
        return self._here.inside(command)

    def run(self, name: str, command: Sequence[str]) -> process.Running:
        """Run a program of the product on the node, like its DaemonSet, until ``close``."""
        return self._here.spawn(name, command)

    def end(self, name: str, *, crash: bool = False) -> None:
        """Stop a program that ``run`` started."""
        self._here.end(name, crash=crash)

    def log(self, name: str) -> Path:
        """A program's output."""
        return self.places.log(name)

    def _ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._programs["ctr"]), f"--address={settings.CONTAINERD_SOCKET}", *words]
        return subprocess.run(
            self.inside(command), capture_output=True, text=True, timeout=120, check=False
        )

    # --- its end ------------------------------------------------------------------------------

    def __enter__(self) -> RealNode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the pods, stop the programs, and remove their files."""
        if self._here.has(KUBELET):
            self._delete_pods()
        if self._services is not None:
            self._services.close()
        self._here.close()
        cgroups.remove("kubepods")

    def _delete_pods(self) -> None:
        client = self.plane.client
        path = f"/api/v1/pods?fieldSelector=spec.nodeName={self.name}"

        def are_gone() -> bool:
            pods = client.get(path)["items"]
            for pod in pods:
                meta = pod["metadata"]
                if "deletionTimestamp" not in meta:
                    one = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                    client.delete(f"{one}?gracePeriodSeconds=1")
            return not pods

        try:
            wait_until(are_gone, what="pods to end", timeout_s=PODS_GONE_S)
        except ControlPlaneError as error:
            # The sandbox ends their processes; the caller still gets the error.
            sys.stderr.write(f"{self.name}: {error}\n")
