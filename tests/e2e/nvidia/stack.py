"""NVIDIA's programs on their mock NVML library, from the folder that ``make e2e-nvidia`` names.

Nothing of them is in this repository. The folder has

    nvidia-stack.tar.xz     the programs, the library and the configurations of its boards
    smi.c, cuda.c           an nvidia-smi that lists what NVML shows, and an empty libcuda
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ARCHIVE: Final = "nvidia-stack.tar.xz"
SOURCES: Final = ("smi.c", "cuda.c")
#: The mock with MIG instances, and with events that reach a process that only waits for them.
LIBRARY: Final = "libnvidia-ml-mig.so.1"
PROGRAMS: Final = (
    "nvidia-device-plugin",
    "gpu-feature-discovery",
    "gpu-kubelet-plugin",
    "nvidia-cdi-hook",
    "nvml-mock-ctl",
    LIBRARY,
)

VERSIONED: Final = ("nvidia-device-plugin", "gpu-kubelet-plugin")


def missing(folder: Path | None) -> str | None:
    """What keeps the programs from being used, in one line; None if nothing does."""
    if folder is None:
        return f"no folder with NVIDIA's programs: make e2e-nvidia NVIDIA=FOLDER, with {ARCHIVE}"
    if not folder.is_dir():
        return f"NVIDIA={folder}: no such folder"
    absent = [name for name in (ARCHIVE, *SOURCES) if not (folder / name).is_file()]
    if absent:
        return f"NVIDIA={folder}: it has no {', no '.join(absent)}"
    if shutil.which("gcc") is None:
        return "gcc: not in PATH; the nvidia-smi of these tests is compiled with it"
    return None


@dataclass(frozen=True, slots=True)
class Stack:
    """The unpacked programs."""

    folder: Path

    @classmethod
    def unpack(cls, source: Path, target: Path) -> Stack:
        """Unpack the archive into a folder and compile the two sources."""
        with tarfile.open(source / ARCHIVE) as archive:
            archive.extractall(target, filter="data")
        stack = cls(target / ARCHIVE.partition(".")[0])
        absent = [name for name in PROGRAMS if not (stack.folder / name).is_file()]
        if absent:
            raise FileNotFoundError(f"{ARCHIVE}: it has no {', no '.join(absent)}")
        shared = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
        _compile(*shared, "-o", stack.cuda, source / "cuda.c")
        _compile("-O2", "-o", stack.smi, source / "smi.c", "-ldl")
        return stack

    @property
    def smi(self) -> Path:
        """The nvidia-smi of the tests."""
        return self.folder / "nvidia-smi"

    @property
    def cuda(self) -> Path:
        """The library that NVIDIA's programs look for beside NVML's."""
        return self.folder / "libcuda.so"

    @property
    def library(self) -> Path:
        """The mock NVML library."""
        return self.folder / LIBRARY

    def program(self, name: str) -> Path:
        """A program's path."""
        return self.folder / name

    @property
    def versions(self) -> tuple[str, ...]:
        """What the device plugin and the DRA driver say about their versions."""
        words = [[str(self.program(name)), "--version"] for name in VERSIONED]
        # Without a driver the mock library stands for NVML, which they link to.
        return tuple(
            subprocess.run(one, check=True, capture_output=True, text=True).stdout.strip()
            for one in words
        )

    def board(self, name: str) -> str:
        """The mock's configuration of a machine with eight boards: ``a100``, ``h100``, ..."""
        return (self.folder / "configs" / f"mock-nvml-config-{name}.yaml").read_text()


def _compile(*words: str | Path) -> None:
    subprocess.run(["gcc", *map(str, words)], check=True, capture_output=True, text=True)
