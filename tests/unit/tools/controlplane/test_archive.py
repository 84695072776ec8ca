"""Extraction of programs from an archive, only with an explicit option."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.binaries import ensure
from tools.controlplane.programs.progress import Progress
from tools.controlplane.programs.versions import program

ETCD = program("etcd")


def pack(path: Path, name: str, says: str) -> str:
    """Write an archive with one program that prints a version."""
    content = f"#!/bin/sh\necho '{says}'\n".encode()
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return str(path)


def take(tmp_path: Path, archive: str) -> dict[str, Path]:
    variables = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": ""}
    return ensure(["etcd"], environ=variables, progress=Progress(io.StringIO()), archive=archive)


def test_a_program_of_the_right_version_is_taken(tmp_path: Path) -> None:
    """It lies in the cache afterwards, as if it had been built."""
    archive = pack(tmp_path / "a.tgz", "controller-tools/envtest/etcd", f"etcd {ETCD.version}")
    place = take(tmp_path, archive)["etcd"]

    assert place.parent.name == ETCD.version
    assert place.stat().st_mode & 0o777 == 0o755


def test_a_name_that_leaves_the_folder_leads_nowhere(tmp_path: Path) -> None:
    """Only the last part of a member's name counts."""
    archive = pack(tmp_path / "a.tgz", "../../../etcd", f"etcd {ETCD.version}")
    take(tmp_path, archive)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tgz", "cache"]


def test_another_version_is_refused(tmp_path: Path) -> None:
    """An archive of another release is not quietly tested with."""
    archive = pack(tmp_path / "a.tgz", "envtest/etcd", "etcd 3.5.0")
    with pytest.raises(ControlPlaneError, match=r"its etcd is not version 3\.7\.3"):
        take(tmp_path, archive)


@pytest.mark.parametrize(
    ("archive", "complaint"),
    [
        pytest.param("absent.tgz", "not a readable archive", id="absent"),
        pytest.param("http://localhost/a.tgz", "only https:// and paths", id="unsafe"),
        pytest.param("https://127.0.0.1:9/a.tgz", "Connection refused", id="unreachable"),
    ],
)
def test_an_archive_that_cannot_be_had_is_one_line(
    tmp_path: Path, archive: str, complaint: str
) -> None:
    """No traceback for a mistake in a path or an address."""
    with pytest.raises(ControlPlaneError, match=complaint):
        take(tmp_path, archive)
