"""Runs helm: ours if it is there, the PATH's otherwise, built if there is none.

There are two, by their programs' names: ``helm`` is the present one, ``helm3`` its predecessor.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.controlplane.binaries import ensure

HELMS: Final = ("helm", "helm3")
TIMEOUT_S: Final = 120.0


class HelmFailed(RuntimeError):
    """Helm said no; the text is what it said."""


@functools.cache
def program(name: str) -> str:
    """Where one of them lies."""
    return str(ensure((name,))[name])


def helm(*words: str | Path, kubeconfig: Path | None = None, by: str = HELMS[0]) -> str:
    """What one command prints; its configuration and caches are in a folder of its own, never the
    user's."""
    with tempfile.TemporaryDirectory() as home:
        places = {f"HELM_{kind}_HOME": f"{home}/{kind}" for kind in ("CACHE", "CONFIG", "DATA")}
        # What an API server offers is kept below HOME otherwise, one folder for each address.
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
