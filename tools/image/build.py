"""Builds the images' archive, or finds it in the cache: three layers that both images share.

    Python (in place of the base image) | the locked packages | the product

nvidia-smi is a fourth layer of the stage that copies it. The cache keys are a digest of the lock
file for the packages, and a digest of the layers for the archive, so a change of the product takes
seconds. Only the newest entry of each is kept.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.go_program import ensure_go_program
from tools.controlplane.programs.progress import Patience, Progress
from tools.image import dockerfile, machine, packages, sbom
from tools.image.dockerfile import ROOT, Stage
from tools.image.layer import FOLDERS, Layer, write_layer
from tools.image.oci import Image, write_archive
from tools.release import present

FOLDER: Final = "image"
#: The Dockerfile's stages that become images.
NAMES: Final = ("gpu-scheduler", "gpu-scheduler-check")
#: The stage of the only program that is not Python, and its sources.
SMI: Final = "nvidia-smi"
SMI_SOURCE: Final = ROOT / "fakegpu" / "smi" / SMI


class Built(NamedTuple):
    """The archive with both images, and their SBOM."""

    archive: Path
    sbom: Path


def ensure_images(
    *, environ: Mapping[str, str] | None = None, progress: Progress | None = None
) -> Built:
    """Return the archive of both images of the current sources."""
    environ = os.environ if environ is None else environ
    progress = progress or Progress()
    cache = Cache.of(environ)
    stages, tag = dockerfile.read(), present()
    packages.check_steps(stages["build"])
    program = ensure_go_program(SMI_SOURCE, environ=environ, progress=progress)
    with cache.locked(Patience(progress)):
        installed = _installed(cache, environ, progress)
        with cache.scratch() as scratch:
            ours = scratch / "product"
            files = packages.product(stages["build"], ours, cache, environ, progress)
            layers = (
                write_layer(
                    scratch / "python.tar",
                    {**machine.shell(), **machine.python(), "/etc/passwd": machine.PASSWD},
                    FOLDERS,
                ),
                write_layer(scratch / "packages.tar", packages.packages(installed)),
                write_layer(scratch / "product.tar", {**files, "/LICENSE": ROOT / "LICENSE"}),
            )
            images = [
                image(
                    f"{name}:{tag}",
                    stages[name],
                    (*layers, *_smi(stages[name], program, scratch / f"{name}-smi.tar")),
                )
                for name in NAMES
            ]
            return _written(cache, images, installed)


def _smi(stage: Stage, program: Path, place: Path) -> Iterator[Layer]:
    for copy in stage.copies:
        if copy.stage == SMI:
            yield write_layer(place, {copy.target: program})


def _installed(cache: Cache, environ: Mapping[str, str], progress: Progress) -> Path:
    lock = (ROOT / packages.LOCK).read_bytes()
    how = Path(packages.__file__).read_bytes()
    digest = hashlib.sha256(lock + how + packages.PYVENV.encode()).hexdigest()[:16]
    place = cache.root / FOLDER / f"packages-{digest}"
    if not place.exists():
        with cache.scratch() as scratch:
            packages.install(scratch / "venv", cache, environ, progress)
            _keep_only(place)
            (scratch / "venv").rename(place)
    return place


def _written(cache: Cache, images: Sequence[Image], installed: Path) -> Built:
    said = repr([one.config() for one in images]).encode()
    place = cache.root / FOLDER / f"archive-{hashlib.sha256(said).hexdigest()[:16]}"
    built = Built(place / "images.tar", place / "sbom.json")
    if not place.exists():
        _keep_only(place)
        fresh = place.with_name(f"new-{place.name}")
        fresh.mkdir(parents=True)
        write_archive(fresh / built.archive.name, images)
        (fresh / built.sbom.name).write_text(sbom.text(installed, images[0]))
        fresh.rename(place)
    return built


def image(name: str, stage: Stage, layers: tuple[Layer, ...]) -> Image:
    """An image of these layers with the configuration of the Dockerfile's stage."""
    return Image(
        name=name,
        layers=layers,
        entrypoint=stage.entrypoint,
        command=stage.command,
        environment=stage.environment,
        user=stage.user,
        folder=stage.folder,
        ports=stage.ports,
    )


def _keep_only(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    kind = place.name.partition("-")[0]
    for pattern in (f"{kind}-*", f"new-{kind}-*"):
        for older in place.parent.glob(pattern):
            shutil.rmtree(older)
