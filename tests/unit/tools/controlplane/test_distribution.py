"""A program out of the distribution's package, with scripts in the place of apt-get and dpkg."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.binaries import ensure, missing
from tools.controlplane.programs.progress import Progress

PROGRAM = "#!/bin/sh\necho 'prometheus, version 2.42.0+ds (branch: x)'\n"


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with an empty cache and the scripts of a test."""
    tools = tmp_path / "tools"
    for folder in (tmp_path / "bin", tools):
        folder.mkdir()
    for name in ("sh", "touch", "mkdir", "cp", "chmod", "echo"):
        (tools / name).symlink_to(str(shutil.which(name)))
    return {
        "PATH": f"{tmp_path}/bin:{tools}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }


def script(folder: Path, name: str, body: str) -> None:
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def package(folder: Path, program: str) -> None:
    """apt-get has the package, and this is the program in it."""
    (folder / "program").write_text(program)
    script(folder, "apt-get", f'echo "$*" >>{folder}/calls; touch prometheus_2_amd64.deb')
    script(
        folder,
        "dpkg-deb",
        f"mkdir -p usr/bin && cp {folder}/program usr/bin/prometheus && chmod 755 usr/bin/*",
    )


def test_packaged_program_is_taken_once_and_then_found(
    tmp_path: Path, machine: dict[str, str]
) -> None:
    package(tmp_path, PROGRAM)
    assert missing(["prometheus"], machine) == ["prometheus"]

    first = ensure(["prometheus"], environ=machine, progress=Progress(io.StringIO()))
    second = ensure(["prometheus"], environ=machine, progress=Progress(io.StringIO()))

    place = tmp_path / "cache/gpu-scheduler/controlplane/2.42/prometheus"
    assert first == second == {"prometheus": place}
    assert (tmp_path / "calls").read_text() == "download --quiet prometheus\n"


@pytest.mark.parametrize(
    ("apt", "program", "complaint"),
    [
        pytest.param("", "", "there is no apt-get; install version 2.42 or newer", id="no-apt"),
        pytest.param(
            "echo 'E: Unable to locate package prometheus' >&2; exit 100",
            PROGRAM,
            "Unable to locate package prometheus; apt-get update reads the package lists",
            id="no-lists",
        ),
        pytest.param(
            "touch a.deb",
            PROGRAM.replace("2.42", "2.33"),
            "the package prometheus has none of version 2.42 or newer",
            id="too-old",
        ),
    ],
)
def test_missing_package_is_an_error_with_the_remedy(
    tmp_path: Path, machine: dict[str, str], apt: str, program: str, complaint: str
) -> None:
    if apt:
        package(tmp_path, program)
        script(tmp_path, "apt-get", apt)
    else:
        machine["PATH"] = f"{tmp_path}/bin"

    with pytest.raises(ControlPlaneError, match=complaint):
        ensure(["prometheus"], environ=machine, progress=Progress(io.StringIO()))
