"""Compiles Kubernetes' end-to-end tests from the module that the control plane is built from.

The program is 118 MB and lies in the cache of built programs, never in the repository.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tools.controlplane.programs.build import MODULES
from tools.controlplane.programs.cache import Cache, is_program
from tools.controlplane.programs.logged_run import LoggedRun
from tools.controlplane.programs.progress import Progress
from tools.controlplane.programs.toolchain import find_or_fetch
from tools.controlplane.programs.versions import KUBERNETES

PACKAGE: Final = "k8s.io/kubernetes/test/e2e"
NAME: Final = "e2e.test"
#: With empty caches on two cores.
BUILD_S: Final = 900.0
_VERSION: Final = f"-X k8s.io/component-base/version.gitVersion=v{KUBERNETES}"


def ensure_tests() -> Path:
    """The path of the test program; it is built if it is missing."""
    cache, progress = Cache.of(os.environ), Progress()
    place = cache.root / KUBERNETES / NAME
    if is_program(place):
        return place
    toolchain = find_or_fetch(cache, os.environ, progress)
    title = "building Kubernetes' end-to-end tests"
    with progress.step(title, BUILD_S) as step, cache.scratch() as scratch:
        built, work = scratch / NAME, scratch / "work"
        work.mkdir()
        environ = {**toolchain.environ, "GOTMPDIR": str(work)}
        words = [str(toolchain.go), "test", "-c", "-ldflags", f"-s -w {_VERSION}"]
        run = LoggedRun(title, cache.root / "logs" / "e2e.log", environ)
        run.run([*words, "-o", str(built), PACKAGE], step, cwd=MODULES / "kubernetes")
        place.parent.mkdir(parents=True, exist_ok=True)
        built.replace(place)
    return place
