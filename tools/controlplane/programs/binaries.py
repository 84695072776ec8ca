"""Finds the programs of a control plane, or builds them.

    variables -> PATH -> cache -> (an archive, optional) -> build, or a package of the distribution

Concurrent runs do not build a program twice. Long steps show their progress.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.archive import take_from
from tools.controlplane.programs.build import build, check_needs, expected_s
from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.distribution import take_package
from tools.controlplane.programs.locate import find
from tools.controlplane.programs.progress import Patience, Progress, duration
from tools.controlplane.programs.toolchain import Toolchain, find_or_fetch
from tools.controlplane.programs.versions import CONTROL_PLANE_PROGRAMS, Program, program


def ensure(
    names: Iterable[str] = CONTROL_PLANE_PROGRAMS,
    *,
    environ: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    archive: str | None = None,
) -> dict[str, Path]:
    """Return the paths of these programs; build the missing ones.

    ``archive`` is the path or URL of an official envtest archive to use instead of a build.
    """
    environ = os.environ if environ is None else environ
    cache = Cache.of(environ)
    wanted = [program(name) for name in dict.fromkeys(names)]
    places = {each.name: find(each, environ, cache) for each in wanted}
    missing = [each for each in wanted if places[each.name] is None]
    made = _make(missing, cache, environ, progress or Progress(), archive) if missing else {}
    return {name: place for name, place in places.items() if place is not None} | made


def missing(names: Iterable[str], environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the programs that would have to be built."""
    environ = os.environ if environ is None else environ
    cache = Cache.of(environ)
    return [name for name in names if find(program(name), environ, cache) is None]


def _make(
    programs: list[Program],
    cache: Cache,
    environ: Mapping[str, str],
    progress: Progress,
    archive: str | None,
) -> dict[str, Path]:
    check_needs(programs, environ)
    try:
        with cache.locked(Patience(progress)):
            return _make_alone(programs, cache, environ, progress, archive)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise ControlPlaneError(
            f"{cache.root}: the disk is full; make room and start again, finished parts are kept"
        ) from error


def _make_alone(
    programs: list[Program],
    cache: Cache,
    environ: Mapping[str, str],
    progress: Progress,
    archive: str | None,
) -> dict[str, Path]:
    # The previous holder of the lock may have built the program.
    made = {each.name: place for each in programs if (place := cache.find(each)) is not None}
    if archive is not None:
        todo = [each for each in programs if each.name not in made]
        made |= take_from(archive, todo, cache, progress)
    for each in programs:
        if each.debian and each.name not in made:
            made[each.name] = take_package(each, cache, environ, progress)
    todo = [each for each in programs if each.name not in made]
    if todo:
        names = ", ".join(each.name for each in todo)
        about = duration(expected_s(todo))
        progress.say(
            f"{names}: not on this machine yet; built once into {cache.root}, "
            f"in about {about} if nothing is cached"
        )

        def find_go(go_min: tuple[int, int]) -> Toolchain:
            return find_or_fetch(cache, environ, progress, go_min=go_min)

        made |= build(todo, cache, find_go, progress)
    return made
