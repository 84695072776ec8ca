"""Files that lie in a program's source and belong to its installation, such as its API kinds.

They come with the module that its ``go.mod`` pins and ``go.sum`` checks, and are kept in the cache
beside the programs, so that they are there without a network once they were.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tools.controlplane.build import MODULES
from tools.controlplane.cache import Cache
from tools.controlplane.logged_run import LoggedRun
from tools.controlplane.progress import Patience, Progress
from tools.controlplane.toolchain import find_or_fetch
from tools.controlplane.versions import Program


def ensure_source_folder(
    program: Program,
    folder: str,
    *,
    environ: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return a folder of a program's source, which is fetched if it is not in the cache yet."""
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
        # The copy appears complete or not at all, and can be removed with a plain rm -r.
        copy = scratch / "copy"
        copy.mkdir()
        for path in source.iterdir():
            shutil.copyfile(path, copy / path.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        copy.replace(place)
