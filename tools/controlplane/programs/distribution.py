"""Takes a program out of a package of the distribution, without installing the package.

The package's service is not started, its dependencies are not installed, and root is not needed.
apt checks the signature of the package's list and the hash of the package.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.locate import is_right_version
from tools.controlplane.programs.progress import Progress
from tools.controlplane.programs.versions import Program

DOWNLOAD_S: Final = 300.0
#: What Debian and Ubuntu have for it.
TOOLS: Final = ("apt-get", "dpkg-deb")


def take_package(
    program: Program, cache: Cache, environ: Mapping[str, str], progress: Progress
) -> Path:
    """Download the package and put its program into the cache."""
    if any(shutil.which(tool, path=environ.get("PATH", "")) is None for tool in TOOLS):
        raise ControlPlaneError(
            f"{program.name}: not on this machine, and there is no apt-get; install version"
            f" {program.version} or newer, or set {program.variable} to its path"
        )
    with cache.scratch() as scratch, progress.step(f"downloading the package {program.debian}"):
        _run(program, ("apt-get", "download", "--quiet", program.debian), scratch, environ)
        for package in scratch.glob("*.deb"):
            _run(program, ("dpkg-deb", "--extract", package.name, "."), scratch, environ)
        taken = scratch / "usr" / "bin" / program.name
        if not is_right_version(program, taken):
            raise ControlPlaneError(
                f"{program.name}: the package {program.debian} has none of version"
                f" {program.version} or newer"
            )
        return cache.install(program, taken)


def _run(
    program: Program, words: tuple[str, ...], folder: Path, environ: Mapping[str, str]
) -> None:
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ControlPlaneError(f"{program.name}: {words[0]}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise ControlPlaneError(
            f"{program.name}: {' '.join(words)}: {said[-1] if said else 'failed'};"
            " apt-get update reads the package lists"
        )
