"""A rehearsal of a release: everything that it publishes is built, pushed, fetched and rendered.

    charts ── package ──> helm push ──> a registry in memory, on the loopback interface
                                                │ helm show, helm template
    the release's images  <── compared ─────────┘
    wheel  ── its version

The images are built by a container engine (``make images``), or without one (``make sbom``).
"""

from __future__ import annotations

import http.client
import re
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from tools.charts.helm import helm
from tools.controlplane import wait_until
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.controlplane.process import start
from tools.controlplane.programs.go_program import ensure_go_program
from tools.release import NotReleased, present
from tools.release.artifacts import package, wheel

SOURCE: Final = Path(__file__).parent / "registry"
#: The registry that the rehearsed charts name for their images.
IMAGES: Final = "registry.example.com/team"
START_S: Final = 20.0
_IMAGE: Final = re.compile(r"^ *image: \"?([^\s\"]+)\"?$", re.MULTILINE)


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run an OCI registry; its address."""
    (port,) = free_ports(1)
    address = f"{LOOPBACK}:{port}"
    program = folder / SOURCE.name
    program.symlink_to(ensure_go_program(SOURCE))
    running = start("registry", [str(program), address], log=folder / "registry.log", home=folder)
    try:
        wait_until(lambda: _answers(port), what="the registry to answer", timeout_s=START_S)
        yield address
    finally:
        running.stop()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=1)
    try:
        connection.request("GET", "/v2/")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def check() -> Iterator[str]:
    """Rehearse; one line for each published thing. NotReleased or HelmFailed if one is wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with registry(folder) as address:
            for archive in package(folder, IMAGES):
                helm("push", archive, f"oci://{address}/charts", "--plain-http")
                yield _published(archive.name.removesuffix(f"-{present()}.tgz"), address)
        yield _wheel(wheel(folder))


def _published(chart: str, address: str) -> str:
    """Fetch a chart without naming a version, and compare its version and its images."""
    where = (f"oci://{address}/charts/{chart}", "--plain-http")
    told = yaml.safe_load(helm("show", "chart", *where))
    if {told["version"], str(told["appVersion"])} != {present()}:
        raise NotReleased(f"{chart}: its version is not {present()}")
    images = set(_IMAGE.findall(helm("template", "rehearsal", *where)))
    name = f"{IMAGES}/gpu-scheduler"
    if not images or images > {f"{name}:{present()}", f"{name}-check:{present()}"}:
        raise NotReleased(f"{chart}: it names the images {', '.join(sorted(images)) or 'none'}")
    return f"chart {chart} {told['version']}: {', '.join(sorted(images))}"


def _wheel(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(metadata).decode()
    if f"\nVersion: {present()}\n" not in text:
        raise NotReleased(f"{path.name}: its version is not {present()}")
    return f"wheel {path.name}"
