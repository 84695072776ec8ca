"""Builds programs from Go modules in the versions that ``modules/`` pins.

Programs of one module are built together, because they share most packages. The build writes to the
cache only. It never changes the modules' files, which are lock files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.logged_run import LoggedRun
from tools.controlplane.programs.progress import Progress
from tools.controlplane.programs.toolchain import Toolchain
from tools.controlplane.programs.versions import Program

MODULES: Final = Path(__file__).parents[1] / "modules"
#: The number of cores for the build times in the table of programs.
TABLE_CORES: Final = 2


def build(
    programs: Sequence[Program],
    cache: Cache,
    find_go: Callable[[tuple[int, int]], Toolchain],
    progress: Progress,
) -> dict[str, Path]:
    """Build programs and put them into the cache, each module with a Go that is new enough."""
    built: dict[str, Path] = {}
    for module, group in groupby(sorted(programs, key=_module_of), key=_module_of):
        members = list(group)
        toolchain = find_go(max(each.go_min for each in members))
        built |= _Build(module, members, cache, toolchain, progress).run()
    return built


def _module_of(program: Program) -> str:
    return program.module


def expected_s(programs: Sequence[Program], cores: int | None = None) -> float:
    """Estimate the duration of a build with empty caches; linking uses one core."""
    cores = cores or os.cpu_count() or TABLE_CORES
    return sum(program.build_s for program in programs) * max(TABLE_CORES / cores, 0.25)


def check_needs(programs: Iterable[Program], environ: Mapping[str, str]) -> None:
    """Check for missing compilers and headers before the build, and name the packages."""
    tool = shutil.which("pkg-config", path=environ.get("PATH", ""))
    for program in programs:
        if program.needs is None:
            continue
        library, packages = program.needs
        if tool is None or subprocess.run([tool, "--exists", library], check=False).returncode != 0:
            raise ControlPlaneError(
                f"{program.name}: it is built with the C library {library}, which is not "
                f"installed; on Debian and Ubuntu: apt-get install {packages}"
            )


class _Build:
    """The programs of one module."""

    def __init__(
        self,
        module: str,
        programs: list[Program],
        cache: Cache,
        toolchain: Toolchain,
        progress: Progress,
    ) -> None:
        self._folder = MODULES / module
        self._programs = programs
        self._cache = cache
        self._toolchain = toolchain
        self._progress = progress
        others = len(programs) - 1
        self._names = programs[0].name + (f" and {others} more" if others else "")
        self._log = cache.root / "logs" / f"{module}.log"

    def run(self) -> dict[str, Path]:
        total = self._download()
        title = f"building {self._names}"
        with (
            self._progress.step(title, expected_s(self._programs)) as step,
            self._cache.scratch() as scratch,
        ):
            step.total = total

            def count(line: str) -> None:
                # With -v the compiler prints each package at its start.
                step.done += not line.startswith("go: ")

            output, work = scratch / "bin", scratch / "work"
            output.mkdir()
            work.mkdir()
            # The default is /tmp, which on many machines is a tmpfs too small for the linker.
            environ = {**self._toolchain.environ, "GOTMPDIR": str(work)}
            words = [*self._go_build(output), *(program.package for program in self._programs)]
            LoggedRun(title, self._log, environ).run(words, step, cwd=self._folder, on_line=count)
            return {
                program.name: self._cache.install(program, path)
                for program, path in self._outputs(output)
            }

    def _download(self) -> int:
        """Download the modules; return how many packages the programs consist of."""
        title = f"fetching the Go modules of {self._names}"
        packages: list[str] = []
        with self._progress.step(title) as step:
            command = [str(self._toolchain.go), "list", "-deps"]
            LoggedRun(title, self._log, self._toolchain.environ).run(
                [*command, *(program.package for program in self._programs)],
                step,
                cwd=self._folder,
                on_line=lambda line: None if line.startswith("go: ") else packages.append(line),
            )
        return len(packages)

    def _go_build(self, output: Path) -> list[str]:
        stamps = dict.fromkeys(stamp for program in self._programs for stamp in program.stamps)
        link = " ".join(["-s", "-w", *(f"-X {stamp}" for stamp in stamps)])
        target = output if len(self._programs) > 1 else output / self._programs[0].name
        tags = ",".join(dict.fromkeys(tag for one in self._programs for tag in one.tags))
        words = [str(self._toolchain.go), "build", "-v", "-ldflags", link, "-o", str(target)]
        return [*words, "-tags", tags] if tags else words

    def _outputs(self, output: Path) -> Iterator[tuple[Program, Path]]:
        for program in self._programs:
            path = output / program.name
            assert path.is_file(), f"go build has written {program.name}"
            yield program, path
