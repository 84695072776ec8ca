"""Runs helm from the variable, the PATH or the cache; it is built if missing.

``helm`` is the current major version, ``helm3`` the previous one.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.controlplane.programs.binaries import ensure

HELMS: Final = ("helm", "helm3")
TIMEOUT_S: Final = 300.0


class HelmFailed(RuntimeError):
    """helm failed; the text is its message."""


@functools.cache
def program(name: str) -> str:
    """The path of a helm program."""
    return str(ensure((name,))[name])


def helm(*words: str | Path, kubeconfig: Path | None = None, by: str = HELMS[0]) -> str:
    """The output of a command; its configuration and caches are temporary, never the user's."""
    with tempfile.TemporaryDirectory() as home:
        places = {f"HELM_{kind}_HOME": f"{home}/{kind}" for kind in ("CACHE", "CONFIG", "DATA")}
        # Otherwise helm caches the discovery documents of each API server below HOME.
        places["KUBECACHEDIR"] = f"{home}/kube"
        environment = {**os.environ, **places}
        if kubeconfig is not None:
            environment["KUBECONFIG"] = str(kubeconfig)
        command = [program(by), *map(str, words)]
        ended = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S, check=False
        )
    if ended.returncode != 0:
        raise HelmFailed(ended.stderr.strip() or ended.stdout.strip())
    return ended.stdout


def template(
    chart: Path,
    *,
    release: str,
    namespace: str,
    words: Sequence[str | Path] = (),
    by: str = HELMS[0],
) -> str:
    """The chart's objects as YAML."""
    return helm("template", release, chart, "--namespace", namespace, *words, by=by)
