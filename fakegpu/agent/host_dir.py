"""The host directory that containers mount: nvidia-smi, and the telemetry of each device.

    bin/nvidia-smi
    devices/GPU-.../reading.json      one directory per device, mounted into its containers
    proc/pod/...                      the usage of pods on reserved GPUs, for the node's own agents

A container mounts the directories of its own devices only. Files are replaced atomically, so a
reader never reads a partial file; a directory stays while its device exists.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fakegpu.atomic_write import replace
from fakegpu.node.telemetry import Reading

SMI: Final = "nvidia-smi"
FILE: Final = "reading.json"
POD_FILES: Final = "proc/pod"
#: The devices' directory in containers.
IN_CONTAINER: Final = Path("/run/fake-gpu/devices")
SMI_IN_CONTAINER: Final = Path("/bin/nvidia-smi")


class HostDir:
    """The host directory, and its path for the kubelet."""

    def __init__(self, path: Path, host_path: Path) -> None:
        self._path = path
        self._host_path = host_path
        self._written: dict[str, bytes] = {}

    def install(self, program: Path) -> bool:
        """Install nvidia-smi unless it is unchanged; False if the program is missing."""
        if not program.is_file():
            return False
        target = self._path / "bin" / SMI
        target.parent.mkdir(parents=True, exist_ok=True)
        # A container that runs it keeps the old file: the new one is another file.
        fresh = target.with_suffix(".new")
        shutil.copyfile(program, fresh)
        fresh.chmod(0o755)
        fresh.replace(target)
        return True

    @property
    def has_smi(self) -> bool:
        """Whether nvidia-smi is installed."""
        return (self._path / "bin" / SMI).is_file()

    def smi_on_host(self) -> str:
        """The path of nvidia-smi for the kubelet."""
        return str(self._host_path / "bin" / SMI)

    def device_on_host(self, device: str) -> str:
        """The path of a device's directory for the kubelet."""
        return str(self._host_path / "devices" / device)

    def hold(self, device: str) -> str:
        """Create a device's directory and return its path: a MIG instance may be created a moment
        later.
        """
        (self._path / "devices" / device).mkdir(parents=True, exist_ok=True)
        return self.device_on_host(device)

    def write(self, readings: Iterable[Reading]) -> None:
        """Write these readings, and empty those of removed devices."""
        shown = dict(_files(readings))
        devices = self._path / "devices"
        for device, content in shown.items():
            if self._written.get(device) != content:
                replace(devices / device / FILE, content)
        for gone in self._there(devices) - shown.keys():
            # The directory stays: it may be mounted, and the device may come back.
            replace(devices / gone / FILE, b"{}")
        self._written = shown

    def write_pods(self, files: Mapping[str, bytes]) -> None:
        """Write the usage of pods, and delete that of removed pods; files of other programs
        stay.
        """
        pods = self._path / POD_FILES
        for name, content in files.items():
            replace(self._path / name, content)
        shown = {Path(name).relative_to(POD_FILES).parts[0] for name in files}
        for gone in {path.name for path in pods.glob("*")} - shown:
            shutil.rmtree(pods / gone)

    def _there(self, devices: Path) -> set[str]:
        if self._written:
            return set(self._written)
        return {path.name for path in devices.glob("*") if path.is_dir()}


def _files(readings: Iterable[Reading]) -> Iterator[tuple[str, bytes]]:
    """The reading of a GPU contains all of its instances, that of an instance only itself."""
    for one in readings:
        yield one.uuid, msgspec.json.encode(one)
        for instance in one.instances:
            alone = msgspec.structs.replace(one, instances=(instance,), parts=())
            yield instance.uuid, msgspec.json.encode(alone)
