"""Container Device Interface files for the container runtime (CDI).

One file is common to all containers, each claim has one of its own. Files are replaced atomically,
so the runtime never reads a partial file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fakegpu.atomic_write import replace

#: The oldest version with names that begin with a digit, and a dot in the class.
VERSION: Final = "0.6.0"
COMMON: Final = "common"


class HostMount(msgspec.Struct, frozen=True):
    """A file or folder of the node in the container, read-only."""

    host_path: str
    container_path: str


class DeviceNode(msgspec.Struct, frozen=True):
    """A character device in the container; read and write."""

    container_path: str
    host_path: str
    major: int
    minor: int


class CdiDevice(msgspec.Struct, frozen=True):
    """The container edits of a device."""

    name: str
    env: tuple[str, ...] = ()
    mounts: tuple[HostMount, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()


class CdiFolder:
    """The files of one kind (``vendor/class``) in the runtime's directory."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder = folder
        self._kind = kind
        self._prefix = kind.replace("/", "-") + "_"

    def reference(self, device: str) -> str:
        """The CDI name of a device, which the kubelet passes to the runtime."""
        return f"{self._kind}={device}"

    def has(self, name: str) -> bool:
        """Whether the file exists."""
        return self._path(name).is_file()

    def write(self, name: str, devices: Sequence[CdiDevice]) -> None:
        """Write a file."""
        content = msgspec.json.encode(
            {
                "cdiVersion": VERSION,
                "kind": self._kind,
                "devices": [{"name": one.name, "containerEdits": _edits(one)} for one in devices],
            }
        )
        # The runtime reads *.json only, so it ignores the temporary file.
        replace(self._path(name), content)

    def remove(self, name: str) -> None:
        """Delete a file."""
        self._path(name).unlink(missing_ok=True)

    def keep(self, names: Iterable[str]) -> None:
        """Delete all other files, as leftovers of a crash."""
        kept = {self._path(name) for name in names}
        for path in self._folder.glob(f"{self._prefix}*"):
            if path not in kept:
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{self._prefix}{name}.json"


def _edits(device: CdiDevice) -> dict[str, Any]:
    mounts = [
        {
            "hostPath": one.host_path,
            "containerPath": one.container_path,
            "options": ["ro", "nosuid", "nodev", "bind"],
        }
        for one in device.mounts
    ]
    nodes = [
        {
            "path": one.container_path,
            "hostPath": one.host_path,
            "type": "c",
            "major": one.major,
            "minor": one.minor,
            "permissions": "rw",
        }
        for one in device.nodes
    ]
    found = {"env": list(device.env), "mounts": mounts, "deviceNodes": nodes}
    return {key: value for key, value in found.items() if value}
