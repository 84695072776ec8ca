"""Extracts programs from an official envtest archive instead of building them.

This needs an explicit option with the archive, because the programs are third-party builds. Each
program must report the version that we test with.
"""

from __future__ import annotations

import http
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.locate import is_right_version
from tools.controlplane.programs.progress import Progress, Step
from tools.controlplane.programs.versions import Program

CHUNK: Final = 1 << 20
TIMEOUT_S: Final = 60.0


def take_from(
    archive: str, programs: Sequence[Program], cache: Cache, progress: Progress
) -> dict[str, Path]:
    """Copy the requested programs from the archive into the cache."""
    with cache.scratch() as scratch, progress.step(f"taking programs from {archive}") as step:
        path = _fetch(archive, scratch, step) if "://" in archive else Path(archive)
        taken = _unpack(path, {program.name: program for program in programs}, scratch)
        for program, place in taken:
            if not is_right_version(program, place):
                raise ControlPlaneError(
                    f"{archive}: its {program.name} is not version {program.version}; "
                    "take the archive of that version"
                )
        return {program.name: cache.install(program, place) for program, place in taken}


def _fetch(address: str, scratch: Path, step: Step) -> Path:
    if not address.startswith("https://"):
        raise ControlPlaneError(f"{address}: only https:// and paths are accepted")
    target = scratch / "archive.tar.gz"
    try:
        with (
            urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer,  # noqa: S310 - https
            target.open("wb") as output,
        ):
            while chunk := answer.read(CHUNK):
                output.write(chunk)
                step.tick()
    except urllib.error.HTTPError as error:
        error.close()
        status = http.HTTPStatus(error.code).phrase
        raise ControlPlaneError(f"{address}: {error.code} {status}") from error
    except urllib.error.URLError as error:
        raise ControlPlaneError(f"{address}: {error.reason}") from error
    return target


def _unpack(path: Path, programs: dict[str, Program], scratch: Path) -> list[tuple[Program, Path]]:
    taken: list[tuple[Program, Path]] = []
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                program = programs.get(Path(member.name).name)
                source = archive.extractfile(member) if member.isfile() else None
                if program is not None and source is not None:
                    taken.append((program, _write(source, scratch / program.name)))
    except (OSError, tarfile.TarError) as error:
        raise ControlPlaneError(f"{path}: not a readable archive ({error})") from error
    return taken


def _write(source: IO[bytes], target: Path) -> Path:
    with source, target.open("wb") as output:
        shutil.copyfileobj(source, output)
    target.chmod(0o755)
    return target
