"""Runs helm: ours if it is there, the PATH's otherwise, built if there is none."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.controlplane.binaries import ensure

TIMEOUT_S: Final = 120.0


class HelmFailed(RuntimeError):
    """Helm said no; the text is what it said."""


@functools.cache
def program() -> str:
    """Where helm lies."""
    return str(ensure(("helm",))["helm"])


def helm(*words: str | Path, kubeconfig: Path | None = None) -> str:
    """What one command prints; its configuration is a folder of its own, never the user's."""
    with tempfile.TemporaryDirectory() as home:
        places = {f"HELM_{kind}_HOME": f"{home}/{kind}" for kind in ("CACHE", "CONFIG", "DATA")}
        environment = {**os.environ, **places}
        if kubeconfig is not None:
            environment["KUBECONFIG"] = str(kubeconfig)
        command = [program(), *map(str, words)]
        ended = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S, check=False
        )
    if ended.returncode != 0:
        raise HelmFailed(ended.stderr.strip() or ended.stdout.strip())
    return ended.stdout


def template(chart: Path, *, release: str, namespace: str, words: Sequence[str | Path] = ()) -> str:
    """The chart's objects as YAML."""
    return helm("template", release, chart, "--namespace", namespace, *words)
