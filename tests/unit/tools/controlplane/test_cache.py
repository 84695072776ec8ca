"""The cache: complete programs or none, and one builder at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.versions import program

ETCD = program("etcd")


def test_the_cache_lies_where_the_xdg_convention_says(tmp_path: Path) -> None:
    """XDG_CACHE_HOME first, else .cache in the home; then project and version."""
    under_xdg = Cache.of({"XDG_CACHE_HOME": str(tmp_path), "HOME": "/nowhere"})
    under_home = Cache.of({"HOME": str(tmp_path)})

    end = Path("gpu-scheduler") / "controlplane" / ETCD.version / "etcd"
    assert under_xdg.place(ETCD) == tmp_path / end
    assert under_home.place(ETCD) == tmp_path / ".cache" / end


def test_a_program_is_there_once_it_is_installed_and_not_before(tmp_path: Path) -> None:
    """What is only half written is not found."""
    cache = Cache(tmp_path)
    with cache.scratch() as scratch:
        built = scratch / "etcd"
        built.write_text("half")
        assert cache.find(ETCD) is None
        built.write_text("whole")
        place = cache.install(ETCD, built)

    assert cache.find(ETCD) == place
    assert place.read_text() == "whole"


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    """The temporary directory is removed with its owner."""

    def build() -> None:
        with Cache(tmp_path).scratch() as scratch:
            (scratch / "etcd").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_build_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    """The next holder of the lock removes the files of a killed process."""
    leftover = tmp_path / "building-killed"
    leftover.mkdir()
    (leftover / "etcd").write_text("half")

    with Cache(tmp_path).locked(lambda: None):
        assert not leftover.exists()


def test_two_builders_take_turns(tmp_path: Path) -> None:
    """The second waits while the first has the lock, and gets it afterwards."""
    order: list[str] = []
    first = Cache(tmp_path).locked(lambda: None)
    first.__enter__()

    def while_waiting() -> None:
        order.append("waits")
        first.__exit__(None, None, None)

    with Cache(tmp_path).locked(while_waiting):
        order.append("builds")

    assert order == ["waits", "builds"]


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    """A file in place of the directory is reported in one line."""
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ControlPlaneError, match=r"cannot be created .* set XDG_CACHE_HOME"),
        Cache(tmp_path / "file" / "cache").locked(lambda: None),
    ):
        raise AssertionError("not reached")
