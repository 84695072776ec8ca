"""Fetches files of a program's source that its installation needs, for example CRDs.

They come from the module that ``go.mod`` pins and ``go.sum`` checks, and stay in the cache, so that
later runs need no network.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tools.controlplane.programs.build import MODULES
from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.logged_run import LoggedRun
from tools.controlplane.programs.progress import Patience, Progress
from tools.controlplane.programs.toolchain import find_or_fetch
from tools.controlplane.programs.versions import Program


def ensure_source_folder(
    program: Program,
    folder: str,
    *,
    environ: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return a directory of a program's source; fetch it if it is not in the cache."""
    environ = os.environ if environ is None else environ
    progress = progress or Progress()
    cache = Cache.of(environ)
    place = cache.place(program).with_name(f"{program.name}-{folder.replace('/', '-')}")
    if not place.is_dir():
        with cache.locked(Patience(progress)):
            if not place.is_dir():
                _fetch(program, folder, place, cache, environ, progress)
    return place


def _fetch(
    program: Program,
    folder: str,
    place: Path,
    cache: Cache,
    environ: Mapping[str, str],
    progress: Progress,
) -> None:
    toolchain = find_or_fetch(cache, environ, progress, go_min=program.go_min)
    title = f"fetching the source of {program.name}"
    answer: list[str] = []
    with progress.step(title) as step, cache.scratch() as scratch:
        LoggedRun(title, cache.root / "logs" / f"{program.name}-source.log", toolchain.environ).run(
            [str(toolchain.go), "list", "-find", "-f", "{{.Module.Dir}}", program.package],
            step,
            cwd=MODULES / program.module,
            on_line=lambda line: None if line.startswith("go: ") else answer.append(line),
        )
        source = Path(answer[-1]) / folder
        # The copy is complete after the rename, and writable for rm -r.
        copy = scratch / "copy"
        copy.mkdir()
        for path in source.iterdir():
            shutil.copyfile(path, copy / path.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        copy.replace(place)
