"""Virtual environments with the wheel: with all packages of this one, or with a few of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from tools.release.artifacts import wheel

PACKAGES: Final = ("scheduler", "webhook", "fakegpu", "gpucheck", "gpuctl")
NAME: Final = "gpu-scheduler"


class Environment:
    """A virtual environment with the wheel, and an empty directory in which programs run."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.programs = root / "bin"
        self.packages = root / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        self.directory = directory

    def run(self, program: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment outside of the checkout."""
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "COLUMNS": "100"}
        command = [self.programs / program, *words]
        return subprocess.run(
            command, cwd=self.directory, env=variables, capture_output=True, text=True, check=False
        )

    def gpuctl(self, *words: str | Path) -> str:
        """The output of a gpuctl command that succeeds."""
        result = self.run("gpuctl", *words)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def link(self, extra: str) -> None:
        """Add the packages that pip would install with ``gpu-scheduler[extra]``, and no others."""
        for each in _with_dependencies(NAME, extra):
            for entry in {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
                place = self.packages / entry
                if not place.exists():
                    place.symlink_to(Path(str(each.locate_file(entry))))


def installed(root: Path) -> Environment:
    """An environment with the wheel, and without any of its dependencies."""
    folder, elsewhere = root / "env", root / "elsewhere"
    elsewhere.mkdir()
    python = sys.executable
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--python", str(folder)]
    words = ["install", "--quiet", "--no-index", "--no-deps", str(wheel(root / "dist"))]
    subprocess.run([*pip, *words], check=True)
    return Environment(folder, elsewhere)


def _with_dependencies(name: str, extra: str) -> Iterator[Distribution]:
    """The dependencies of an extra, with theirs; an extra of a dependency is followed too."""
    seen: set[tuple[str, str]] = set()
    pending = [(name, extra)]
    while pending:
        wanted = pending.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        found = distribution(wanted[0])
        if wanted[0] != name:
            yield found
        for requirement in map(Requirement, found.requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": one}) for one in {"", wanted[1]}):
                pending += [(requirement.name, one) for one in requirement.extras or {""}]
