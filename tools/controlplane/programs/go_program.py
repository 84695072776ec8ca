"""Small Go programs of this repository, built once into the cache as static programs.

The path in the cache contains a digest of the sources. Most programs use the standard library only;
``go.mod`` and ``go.sum`` pin other modules.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.controlplane.programs.cache import Cache, is_program
from tools.controlplane.programs.logged_run import LoggedRun
from tools.controlplane.programs.progress import Patience, Progress
from tools.controlplane.programs.toolchain import find_or_fetch

EXPECTED_S: Final = 15.0
#: The build command without the output path.
BUILD: Final = ("go", "build", "-trimpath", "-ldflags", "-s -w")


def ensure_go_program(
    folder: Path, *, environ: Mapping[str, str] | None = None, progress: Progress | None = None
) -> Path:
    """Return the static program that is built from a folder with a ``go.mod``."""
    environ = os.environ if environ is None else environ
    progress = progress or Progress()
    cache = Cache.of(environ)
    place = cache.root / "own" / _digest(folder) / folder.name
    if is_program(place):
        return place
    with cache.locked(Patience(progress)):
        if not is_program(place):
            _build(folder, place, cache, environ, progress)
    return place


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted((*folder.glob("*.go"), *folder.glob("go.*"))):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _build(
    folder: Path, place: Path, cache: Cache, environ: Mapping[str, str], progress: Progress
) -> None:
    toolchain = find_or_fetch(cache, environ, progress)
    title = f"building {folder.name}"
    with progress.step(title, EXPECTED_S) as step, cache.scratch() as scratch:
        built = scratch / folder.name
        run = LoggedRun(
            title,
            cache.root / "logs" / f"{folder.name}.log",
            {**toolchain.environ, "CGO_ENABLED": "0", "GOTMPDIR": str(scratch)},
        )
        run.run([str(toolchain.go), *BUILD[1:], "-o", str(built), "."], step, cwd=folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        built.replace(place)
