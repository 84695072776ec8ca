"""The folder on the node that containers look into: nvidia-smi, and what each device shows.

    bin/nvidia-smi
    devices/GPU-.../reading.json      one folder for each device, mounted into its containers
    proc/pod/...                      what pods on reserved GPUs do, for the node's own agents

A container sees the folders of its own devices and no others. Files are replaced as a
whole, so a reader never sees a half; a folder stays while its device exists.
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
#: Where containers find their devices.
IN_CONTAINER: Final = Path("/run/fake-gpu/devices")
SMI_IN_CONTAINER: Final = Path("/bin/nvidia-smi")


class HostDir:
    """The node's folder, and its path as the kubelet knows it."""

    def __init__(self, path: Path, host_path: Path) -> None:
        self._path = path
        self._host_path = host_path
        self._written: dict[str, bytes] = {}

    def install(self, program: Path) -> bool:
        """Put nvidia-smi there, if it is not the same already; False where there is none."""
        if not program.is_file():
            return False
        target = self._path / "bin" / SMI
        target.parent.mkdir(parents=True, exist_ok=True)
        # A container that runs it right now keeps the old one: the new one is another file.
        fresh = target.with_suffix(".new")
        shutil.copyfile(program, fresh)
        fresh.chmod(0o755)
        fresh.replace(target)
        return True

    @property
    def has_smi(self) -> bool:
        """Whether nvidia-smi is there."""
        return (self._path / "bin" / SMI).is_file()

    def smi_on_host(self) -> str:
        """Where the kubelet finds it."""
        return str(self._host_path / "bin" / SMI)

    def device_on_host(self, device: str) -> str:
        """Where the kubelet finds a device's folder."""
        return str(self._host_path / "devices" / device)

    def hold(self, device: str) -> str:
        """The same, and it is there from now on: a part of a GPU may be cut a moment later."""
        (self._path / "devices" / device).mkdir(parents=True, exist_ok=True)
        return self.device_on_host(device)

    def write(self, readings: Iterable[Reading]) -> None:
        """Show these readings, and forget devices that are gone."""
        shown = dict(_files(readings))
        devices = self._path / "devices"
        for device, content in shown.items():
            if self._written.get(device) != content:
                replace(devices / device / FILE, content)
        for gone in self._there(devices) - shown.keys():
            # Not the folder: it may be mounted, and the device may come back.
            replace(devices / gone / FILE, b"{}")
        self._written = shown

    def write_pods(self, files: Mapping[str, bytes]) -> None:
        """Show what pods do, and forget pods that are gone; others' files are not touched."""
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
    """A GPU shows all of its instances, an instance only itself."""
    for one in readings:
        yield one.uuid, msgspec.json.encode(one)
        for instance in one.instances:
            alone = msgspec.structs.replace(one, instances=(instance,), parts=())
            yield instance.uuid, msgspec.json.encode(alone)
