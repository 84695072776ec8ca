"""Runs the Dockerfile's first stage: installs the locked packages and the product, compiled.

pip has the same options as there, and checks the hash of each wheel. The compiled files contain the
image's paths. The steps are compared with the Dockerfile by text, so a changed step fails the build
until it is changed here as well.
"""

from __future__ import annotations

import shutil
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.logged_run import LoggedRun
from tools.controlplane.programs.progress import Progress
from tools.image.dockerfile import ROOT, Stage
from tools.image.layer import Files, Link
from tools.image.machine import VERSION, files_below, libraries

#: The path of the environment in the image.
HOME: Final = "/opt/gpu-scheduler"
SITE: Final = f"lib/{VERSION}/site-packages"
LOCK: Final = "requirements/runtime.txt"
#: The compiler of the .proto files; `make venv` installs the same versions here.
PROTOC_LOCK: Final = "requirements/protoc.txt"
PROTOS: Final = "fakegpu/kubelet"
#: Files that the compiler writes into a working tree; the image gets its own.
GENERATED: Final = ("_pb2.py", "_pb2.pyi")
#: pip's installation report, an input of the SBOM; not in the image.
REPORT: Final = "pip-report.json"
#: Excluded from the copied directories.
NOT_SHIPPED: Final = ("webhook/deploy", "webhook/scripts")
#: Extensions that are in the main module of their package too.
DUPLICATES: Final = "cel_expr_python/ext"
EXPECTED_S: Final = 70.0
PYVENV: Final = f"""\
home = /usr/local/bin
include-system-site-packages = false
version = {".".join(str(part) for part in sys.version_info[:3])}
executable = /usr/local/bin/{VERSION}
command = /usr/local/bin/python -m venv --without-pip {HOME}
"""
STEPS: Final = (
    f"python -m venv --without-pip {HOME}",
    f"pip --python {HOME}/bin/python install --no-compile --require-hashes -r {LOCK}"
    f" && find {HOME}/bin -type f -delete"
    f" && rm -r {HOME}/lib/python3*/site-packages/{DUPLICATES}",
    f"pip install --require-hashes -r {PROTOC_LOCK}",
    f"python -m grpc_tools.protoc --proto_path=. --python_out=. {PROTOS}/*.proto",
    f"""site="$({HOME}/bin/python -c 'import site; print(site.getsitepackages()[0])')\""""
    f" && rm -rf {' '.join(NOT_SHIPPED)}"
    """ && cp -r scheduler webhook gpucheck fakegpu "$site\""""
    f" && {HOME}/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash {HOME}",
)


def check_steps(stage: Stage) -> None:
    """Reject a Dockerfile whose steps differ from this module."""
    for step in stage.steps:
        if step not in STEPS:
            raise ControlPlaneError(
                f"Dockerfile: RUN {step}: tools/image/packages.py does not know this step; "
                "do the same there and write it down in STEPS"
            )
    if tuple(stage.steps) != STEPS:
        raise ControlPlaneError("Dockerfile: steps are missing, or stand in another order")


def install(
    folder: Path,
    cache: Cache,
    environ: Mapping[str, str],
    progress: Progress,
    lock: Path = ROOT / LOCK,
) -> None:
    """Install and compile the locked packages into a new directory."""
    venv.create(folder, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    words = ["--no-compile", "--require-hashes", "--disable-pip-version-check"]
    told = ["--report", str(folder / REPORT), "-r", str(lock)]
    run = LoggedRun(
        "installing the image's packages", cache.root / "logs" / "image-packages.log", environ
    )
    with progress.step(run.what, EXPECTED_S) as step:
        run.run([*pip, *words, *told], step)
        forget_programs(folder / SITE)
        duplicates = folder / SITE / DUPLICATES
        if duplicates.parent.is_dir():  # the package is in the lock file
            shutil.rmtree(duplicates)
        compile_below(folder / SITE, f"{HOME}/{SITE}", cache, environ, progress)


def forget_programs(site: Path) -> None:
    """Remove console scripts from the packages' RECORD files.

    The image does not contain them, and their hashes depend on paths of this machine.
    """
    for record in site.glob("*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith("../../../bin/")]
        record.write_text("".join(kept), encoding="utf-8")


def compile_below(
    folder: Path, place: str, cache: Cache, environ: Mapping[str, str], progress: Progress
) -> None:
    """Compile the modules of a directory for their path in the image."""
    words = ["-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    move = ["-s", str(folder), "-p", place]
    # The order of sets in compiled files depends on the hash seed.
    run = LoggedRun(
        "compiling", cache.root / "logs" / "image-compile.log", {**environ, "PYTHONHASHSEED": "0"}
    )
    step = progress.begin(run.what)
    run.run([sys.executable, "-I", "-m", "compileall", *words, *move, str(folder)], step)


def packages(folder: Path) -> Files:
    """The files of ``install`` by their path in the image."""
    installed: dict[str, Path | bytes | Link] = {
        f"{HOME}/{path.relative_to(folder)}": path
        for path in sorted((folder / SITE).rglob("*"))
        if path.is_file()
    }
    native = [path for path in (folder / SITE).rglob("*.so*") if path.is_file()]
    # Wheels contain libraries of their own.
    installed |= {
        name: path for name, path in libraries(native).items() if not name.startswith(str(folder))
    }
    installed[f"{HOME}/pyvenv.cfg"] = PYVENV.encode()
    installed[f"{HOME}/bin/python"] = Link("/usr/local/bin/python")
    installed |= {f"{HOME}/bin/{name}": Link("python") for name in ("python3", VERSION)}
    return installed


def product(
    stage: Stage, folder: Path, cache: Cache, environ: Mapping[str, str], progress: Progress
) -> Files:
    """Our packages, copied as in the Dockerfile and compiled; ``folder`` is a work directory."""
    for copy in stage.copies:
        if copy.source not in {LOCK, PROTOC_LOCK}:
            _take(ROOT / copy.source, folder / copy.target)
    for name in NOT_SHIPPED:
        shutil.rmtree(folder / name)
    generate(folder, cache, environ, progress)
    compile_below(folder, f"{HOME}/{SITE}", cache, environ, progress)
    return {
        f"{HOME}/{SITE}/{path.relative_to(folder)}": path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def generate(folder: Path, cache: Cache, environ: Mapping[str, str], progress: Progress) -> None:
    """Write the modules of the kubelet's messages, as the Dockerfile does."""
    protos = sorted(str(path) for path in (folder / PROTOS).glob("*.proto"))
    words = [f"--proto_path={folder}", f"--python_out={folder}", *protos]
    run = LoggedRun(
        "generating the kubelet's messages", cache.root / "logs" / "image-protoc.log", environ
    )
    step = progress.begin(run.what)
    run.run([sys.executable, "-m", "grpc_tools.protoc", *words], step)


def _take(source: Path, target: Path) -> None:
    for path in files_below(source):
        # Like .dockerignore: local keys and certificates are not copied.
        if path.suffix not in {".key", ".crt"} and not path.name.endswith(GENERATED):
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
