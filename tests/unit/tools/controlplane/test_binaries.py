"""Finding or making programs, with a Go that builds nothing in the place of the real one."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from tests.unit.tools.controlplane.fakego import FakeGo
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.process import command_line
from tools.controlplane.programs.binaries import ensure, missing
from tools.controlplane.programs.build import expected_s
from tools.controlplane.programs.progress import Progress
from tools.controlplane.programs.versions import program


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with nothing but our Go in its PATH."""
    return {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def root(machine: dict[str, str]) -> Path:
    return Path(machine["XDG_CACHE_HOME"]) / "gpu-scheduler" / "controlplane"


def quiet() -> Progress:
    return Progress(io.StringIO())


def test_a_program_is_built_once_and_then_found(tmp_path: Path, machine: dict[str, str]) -> None:
    """The second run builds nothing and prints nothing."""
    go = FakeGo(tmp_path / "bin")
    assert missing(["etcd"], machine) == ["etcd"]

    first = ensure(["etcd"], environ=machine, progress=quiet())
    stream = io.StringIO()
    second = ensure(["etcd"], environ=machine, progress=Progress(stream))

    assert first == second == {"etcd": root(machine) / "3.7.3" / "etcd"}
    assert len(go.calls("build")) == 1
    assert stream.getvalue() == ""
    assert missing(["etcd"], machine) == []


def test_what_is_built_is_announced_with_an_estimate(
    tmp_path: Path, machine: dict[str, str]
) -> None:
    """A person sees at once what is built, where to, and how long that may take."""
    FakeGo(tmp_path / "bin")
    stream = io.StringIO()
    ensure(["etcd"], environ=machine, progress=Progress(stream))

    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("etcd: not on this machine yet; built once into ")
    assert "in about " in lines[0]
    assert lines[-1].startswith("building etcd: done after ")


def test_a_program_is_told_its_own_version(tmp_path: Path, machine: dict[str, str]) -> None:
    """Without the linker's stamp a program would call itself unknown."""
    go = FakeGo(tmp_path / "bin")
    ensure(["kwok"], environ=machine, progress=quiet())

    assert "-X sigs.k8s.io/kwok/pkg/consts.Version=0.8.0" in go.calls("build")[0]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        pytest.param(
            "echo 'pkg/x.go:3: undefined: y' >&2; exit 1",
            r"building etcd failed: pkg/x.go:3: undefined: y; log: .*/logs/etcd\.log",
            id="compiler",
        ),
        pytest.param(
            "echo 'go: x: dial tcp: lookup proxy: no such host' >&2; exit 1",
            "building etcd: the network cannot be reached; check .* GOPROXY .* log: ",
            id="network",
        ),
        pytest.param(
            "echo 'link: write: no space left on device' >&2; exit 1",
            "building etcd: the disk is full .* make room .* log: ",
            id="disk",
        ),
    ],
)
def test_a_build_that_fails_says_why_in_one_line(
    tmp_path: Path, machine: dict[str, str], body: str, complaint: str
) -> None:
    """The line has the next step and the path of the log, and the cache has no program."""
    FakeGo(tmp_path / "bin", body=body)
    with pytest.raises(ControlPlaneError, match=complaint) as failed:
        ensure(["etcd"], environ=machine, progress=quiet())

    assert "\n" not in str(failed.value)
    assert missing(["etcd"], machine) == ["etcd"]
    assert list(root(machine).glob("building-*")) == []


@pytest.mark.parametrize(
    "found",
    [pytest.param(None, id="no-pkg-config"), pytest.param("exit 1", id="no-library")],
)
def test_a_library_that_is_missing_is_told_before_anything_is_built(
    tmp_path: Path, machine: dict[str, str], found: str | None
) -> None:
    """runc is built last, after minutes; the library that it needs is looked for first."""
    go = FakeGo(tmp_path / "bin")
    if found is not None:
        tool = tmp_path / "bin" / "pkg-config"
        tool.write_text(f"#!/bin/sh\n{found}\n")
        tool.chmod(0o755)

    with pytest.raises(ControlPlaneError, match=r"^runc: .* libseccomp, .* apt-get install gcc "):
        ensure(["etcd", "kubelet", "runc"], environ=machine, progress=quiet())

    assert go.calls("build") == go.calls("list") == []


def test_two_runs_at_once_build_once(tmp_path: Path, machine: dict[str, str]) -> None:
    """The one that waited finds what the other has built."""
    gate = tmp_path / "gate"
    go = FakeGo(tmp_path / "bin", body=f'while [ ! -e "{gate}" ]; do :; done')
    results: list[dict[str, Path]] = []

    def run(stream: io.StringIO) -> None:
        results.append(ensure(["etcd"], environ=machine, progress=Progress(stream)))

    class Waits(io.StringIO):
        """Opens the gate as soon as its run says that it waits."""

        def write(self, text: str) -> int:
            if "waiting for another run" in text:
                gate.touch()
            return super().write(text)

    streams = [Waits(), Waits()]
    threads = [threading.Thread(target=run, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(go.calls("build")) == 1
    assert results == [{"etcd": root(machine) / "3.7.3" / "etcd"}] * 2


def test_an_interrupted_build_leaves_neither_program_nor_process(
    tmp_path: Path, machine: dict[str, str]
) -> None:
    """Ctrl-C during a build ends the compiler and removes what it wrote."""
    pid_file = tmp_path / "pid"
    FakeGo(tmp_path / "bin", body=f'echo $$ > "{pid_file}"; while :; do :; done')

    class Interrupts(io.StringIO):
        """A terminal that receives Ctrl-C while the compiler runs."""

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            if "of 3 packages" in text and pid_file.exists() and pid_file.read_text():
                raise KeyboardInterrupt
            return super().write(text)

    with pytest.raises(KeyboardInterrupt):
        ensure(["etcd"], environ=machine, progress=Progress(Interrupts()))

    assert command_line(int(pid_file.read_text())) == ""
    assert missing(["etcd"], machine) == ["etcd"]
    assert list(root(machine).glob("building-*")) == []


def test_the_estimate_shrinks_with_the_cores_but_not_without_end() -> None:
    """Linking is one core's work."""
    etcd = [program("etcd")]

    assert expected_s(etcd, 2) == 30
    assert expected_s(etcd, 1) == 60
    assert expected_s(etcd, 4) == 15
    assert expected_s(etcd, 64) == 7.5
