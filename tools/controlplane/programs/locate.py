"""Finds a program on this machine.

The order is: the variables of the envtest convention, the PATH, our cache. A program from a
variable is used in any version, because the user chose it. A program from the PATH must have the
version that we test with.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.cache import Cache, is_program
from tools.controlplane.programs.versions import Program

ASSETS = "KUBEBUILDER_ASSETS"
VERSION_S = 20.0


def find(program: Program, environ: Mapping[str, str], cache: Cache) -> Path | None:
    """Return the path of a program, or None."""
    return (
        _by_variable(program, environ)
        or _in_assets(program, environ)
        or _in_path(program, environ)
        or cache.find(program)
    )


def _by_variable(program: Program, environ: Mapping[str, str]) -> Path | None:
    value = environ.get(program.variable)
    if not value:
        return None
    if not is_program(Path(value)):
        raise ControlPlaneError(
            f"{program.variable}: {value} is not a program; correct or unset it"
        )
    return Path(value)


def _in_assets(program: Program, environ: Mapping[str, str]) -> Path | None:
    value = environ.get(ASSETS)
    if not value:
        return None
    if not Path(value).is_dir():
        raise ControlPlaneError(f"{ASSETS}: {value} is not a folder; correct or unset it")
    # The directory may contain only some programs: envtest's has three.
    candidate = Path(value) / program.name
    return candidate if is_program(candidate) else None


def _in_path(program: Program, environ: Mapping[str, str]) -> Path | None:
    for folder in environ.get("PATH", "").split(os.pathsep):
        candidate = Path(folder) / program.name
        if folder and is_program(candidate) and is_right_version(program, candidate):
            return candidate
    return None


def is_right_version(program: Program, path: Path) -> bool:
    """Whether a program reports the expected version."""
    try:
        done = subprocess.run(
            [str(path), *program.version_words],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and program.is_version_of(done.stdout)
