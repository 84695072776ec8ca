"""Where a program is looked for, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.programs.cache import Cache
from tools.controlplane.programs.locate import find
from tools.controlplane.programs.versions import program

ETCD = program("etcd")
OURS = f"etcd Version: {ETCD.version}"
PLACES = ("variable", "assets", "path", "cache")


def put(path: Path, says: str = OURS) -> Path:
    """Write a program that prints a version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """A program in each place where one can lie."""
    cache = Cache(tmp_path / "cache")
    return {
        "variable": put(tmp_path / "named"),
        "assets": put(tmp_path / "assets" / "etcd"),
        "path": put(tmp_path / "path" / "etcd"),
        "cache": put(cache.place(ETCD)),
    }


def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "TEST_ASSET_ETCD": str(tmp_path / "named"),
        "KUBEBUILDER_ASSETS": str(tmp_path / "assets"),
        "PATH": str(tmp_path / "path"),
    }


@pytest.mark.parametrize("first", PLACES)
def test_the_first_place_that_has_the_program_wins(
    tmp_path: Path, places: dict[str, Path], first: str
) -> None:
    """Variable, assets, path, cache: with the places before it empty, each is the answer."""
    variables = environ(tmp_path)
    for earlier in PLACES[: PLACES.index(first)]:
        places[earlier].unlink()
        if earlier == "variable":
            del variables["TEST_ASSET_ETCD"]

    assert find(ETCD, variables, Cache(tmp_path / "cache")) == places[first]


def test_a_program_that_lies_nowhere_is_not_found(tmp_path: Path) -> None:
    """An empty machine has nothing."""
    assert find(ETCD, {}, Cache(tmp_path)) is None


@pytest.mark.parametrize(
    "says",
    [
        pytest.param("etcd Version: 3.5.21", id="older"),
        pytest.param("", id="silent"),
        pytest.param("'; exit 1; echo '" + OURS, id="fails"),
    ],
)
def test_another_version_in_the_path_is_passed_over(tmp_path: Path, says: str) -> None:
    """Only our version counts; the search goes on in the next folder of the PATH."""
    put(tmp_path / "first" / "etcd", says)
    second = put(tmp_path / "second" / "etcd")
    variables = {"PATH": f"{tmp_path / 'first'}:{tmp_path / 'second'}"}

    assert find(ETCD, variables, Cache(tmp_path / "cache")) == second


def test_a_variable_is_taken_at_its_word(tmp_path: Path) -> None:
    """A program that the user names may have another version."""
    named = put(tmp_path / "mine", "etcd Version: 9.9.9")

    assert find(ETCD, {"TEST_ASSET_ETCD": str(named)}, Cache(tmp_path)) == named


@pytest.mark.parametrize(
    ("variable", "complaint"),
    [
        pytest.param("TEST_ASSET_ETCD", "TEST_ASSET_ETCD: .* is not a program", id="program"),
        pytest.param("KUBEBUILDER_ASSETS", "KUBEBUILDER_ASSETS: .* is not a folder", id="folder"),
    ],
)
def test_a_variable_that_points_nowhere_is_an_error(
    tmp_path: Path, variable: str, complaint: str
) -> None:
    """A wrong variable is never silently passed over."""
    with pytest.raises(ControlPlaneError, match=complaint):
        find(ETCD, {variable: str(tmp_path / "absent")}, Cache(tmp_path))
