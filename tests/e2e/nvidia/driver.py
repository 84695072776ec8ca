"""The folder that NVIDIA's programs take for the one of the GPU driver: library, device files, the
mock's boards.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.nvidia.stack import Stack

GPU_MAJOR, UVM_MAJOR, CAPS_MAJOR = 195, 510, 236
CONTROL_FILES: Final = {
    "nvidiactl": (GPU_MAJOR, 255),
    "nvidia-uvm": (UVM_MAJOR, 0),
    "nvidia-uvm-tools": (UVM_MAJOR, 1),
}
#: An A100 or H100 has at most seven instances; the ids of GPU instances go up to 14.
INSTANCE_IDS: Final = 15
#: The error of a GPU that fell off the bus.
LOST_XID: Final = 79


class Driver:
    """The driver's folder on one node; ``install`` replaces its GPUs by others."""

    def __init__(self, stack: Stack, directory: Path) -> None:
        self._stack = stack
        self.root = directory / "driver"
        self.boards = self.root / "config" / "config.yaml"
        self._overrides = self.root / "config" / "overrides.yaml"
        self.proc = directory / "proc-driver"
        self.proc_devices = directory / "proc-devices"
        self._mig = ""
        self.gpus = 0

    @property
    def libraries(self) -> Path:
        """The folder of the libraries."""
        return self.root / "usr" / "lib64"

    def install(self, board: str, gpus: int, *, minors: Sequence[int] = (), mig: str = "") -> None:
        """Install GPUs of one kind.

        ``minors`` are those of the GPUs in the order of nvidia-smi; without them minor and index
        are equal. ``mig`` partitions GPUs by the mock's syntax: ``0=2g,2g;1=1g*7``.
        """
        shutil.rmtree(self.root, ignore_errors=True)
        for part in (self.libraries, self.root / "dev", self.boards.parent):
            part.mkdir(parents=True)
        document = yaml.safe_load(self._stack.board(board))
        document["devices"] = _devices(document["devices"][:gpus], minors)
        self.boards.write_text(yaml.safe_dump(document))
        self._mig, self.gpus = mig, gpus
        version = document["system"]["driver_version"]
        self._put_library("libnvidia-ml.so", self._stack.library, version)
        self._put_library("libcuda.so", self._stack.cuda, version)
        (self.root / "usr/bin").mkdir()
        shutil.copy2(self._stack.smi, self.root / "usr/bin/nvidia-smi")
        for number in range(gpus):
            self._device_file(f"nvidia{number}", GPU_MAJOR, number)
        for name, (major, minor) in CONTROL_FILES.items():
            self._device_file(name, major, minor)
        self._write_capabilities()

    def _put_library(self, name: str, source: Path, version: str) -> None:
        shutil.copy2(source, self.libraries / f"{name}.{version}")
        (self.libraries / f"{name}.1").symlink_to(f"{name}.{version}")
        (self.libraries / name).symlink_to(f"{name}.1")

    def _device_file(self, name: str, major: int, minor: int) -> None:
        path = self.root / "dev" / name
        os.mknod(path, 0o20666, os.makedev(major, minor))
        path.chmod(0o666)

    def _write_capabilities(self) -> None:
        """What the kernel module shows of MIG below /proc, and the device files it names."""
        self.proc.mkdir(exist_ok=True)  # it is mounted, so only what is in it is replaced
        for old in self.proc.iterdir():
            shutil.rmtree(old)
        lines = ["config 1", "monitor 2"]
        for gpu, instance in itertools.product(range(self.gpus), range(INSTANCE_IDS)):
            for part in ("", "/ci0"):
                number = len(lines) + 1
                lines.append(f"gpu{gpu}/gi{instance}{part}/access {number}")
                folder = self.proc / f"nvidia/capabilities/gpu{gpu}/mig/gi{instance}{part}"
                folder.mkdir(parents=True)
                (folder / "access").write_text(
                    f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
                )
        (self.root / "dev" / "nvidia-caps").mkdir()
        for number in range(1, len(lines) + 1):
            self._device_file(f"nvidia-caps/nvidia-cap{number}", CAPS_MAJOR, number)
        minors = self.proc / "nvidia-caps" / "mig-minors"
        minors.parent.mkdir()
        minors.write_text("\n".join(lines) + "\n")
        self.proc_devices.write_text(
            f"Character devices:\n{GPU_MAJOR} nvidia\n{CAPS_MAJOR - 1} nvidia-caps-imex-channels\n"
            f"{CAPS_MAJOR} nvidia-caps\n\nBlock devices:\n"
        )

    @property
    def uuids(self) -> list[str]:
        """The UUIDs of the GPUs, by index."""
        return [str(one["uuid"]) for one in yaml.safe_load(self.boards.read_text())["devices"]]

    def capability(self, number: int) -> str:
        """The MIG instance behind ``/dev/nvidia-caps/nvidia-cap<number>``."""
        lines = (self.proc / "nvidia-caps" / "mig-minors").read_text().splitlines()
        found = {line.partition(" ")[2]: line.partition("/access")[0] for line in lines}
        return found[str(number)]

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a program finds the mock and its boards."""
        found = {
            "LD_LIBRARY_PATH": str(self.libraries),
            "MOCK_NVML_CONFIG": str(self.boards),
            "MOCK_NVML_OVERRIDES": str(self._overrides),
            "ALT_PROC_DEVICES_PATH": str(self.proc_devices),
        }
        return {**found, "MOCK_NVML_MIG": self._mig} if self._mig else found

    def lose(self, uuid: str) -> None:
        """Let a GPU fall off the bus: its next event is XID 79."""
        self._control("fail", "--gpu", uuid, "--mode", "ecc_uncorrectable", "--xid", str(LOST_XID))

    def repair(self) -> None:
        """Let every GPU work again, for programs that start afterwards."""
        self._control("reset", "--gpu", "all")

    def _control(self, *words: str) -> None:
        files = ("--file", str(self._overrides), "--config", str(self.boards))
        subprocess.run(
            [str(self._stack.program("nvml-mock-ctl")), *words, *files],
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        )


def _devices(devices: list[dict[str, Any]], minors: Sequence[int]) -> list[dict[str, Any]]:
    minors = minors or range(len(devices))
    return [
        {**device, "minor_number": minor} for device, minor in zip(devices, minors, strict=True)
    ]
