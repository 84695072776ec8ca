"""What a release publishes besides the images: the charts' archives and the wheel.

A chart of a release names the release's images with their registry, so ``helm install`` from the
registry needs no value. In the repository the charts name no registry.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.charts.copies import ROOT, charts
from tools.charts.helm import helm
from tools.release import NotReleased, present

DIST: Final = ROOT / "dist"
#: Host, maybe with a port, and a path: ``registry.example.com/team``.
_REGISTRY: Final = re.compile(r"(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+)(:\d+)?(/[a-z0-9._-]+)*")
_REPOSITORY: Final = re.compile(r"^(  repository: )(\S+)$", re.MULTILINE)
_BUILD_S: Final = 300.0


def checked_registry(registry: str) -> str:
    """The registry without a slash at the end; NotReleased if it is not HOST[:PORT][/PATH]."""
    registry = registry.rstrip("/")
    if _REGISTRY.fullmatch(registry) is None:
        raise NotReleased(f"{registry or 'REGISTRY'}: a registry is like registry.example.com/team")
    return registry


def with_registry(values: str, registry: str) -> str:
    """The text of a values.yaml whose image has this registry."""
    text, count = _REPOSITORY.subn(rf"\g<1>{registry}/\g<2>", values)
    if count != 1:
        raise NotReleased("values.yaml: no line with image.repository")
    return text


def package(folder: Path = DIST, registry: str = "") -> list[Path]:
    """Package the charts into a folder; the archives, in the order of their names."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_package(chart, folder, registry) for chart in charts()]


def _package(chart: Path, folder: Path, registry: str) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(chart, Path(scratch) / chart.name))
        if registry:
            values = copy / "values.yaml"
            text = with_registry(values.read_text(encoding="utf-8"), registry)
            values.write_text(text, encoding="utf-8")
        helm("package", copy, "-d", folder)
    return folder / f"{chart.name}-{present()}.tgz"


def wheel(folder: Path = DIST) -> Path:
    """Build the wheel into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_BUILD_S, check=False
    )
    if ended.returncode != 0:
        raise NotReleased(f"the wheel was not built:\n{ended.stderr.strip()}")
    return folder / f"gpu_scheduler-{present()}-py3-none-any.whl"
