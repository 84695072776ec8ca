"""The lock files pin every package by hash and keep no address of a package index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LOCKS = Path(__file__).parents[3] / "requirements"
NAMES = ("dev.txt", "runtime.txt", "protoc.txt")
PIN = re.compile(r"^([a-z0-9.-]+)==([^ ]+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((LOCKS / name).read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_no_address_and_no_option_stands_in_a_lock(name: str) -> None:
    lines = (LOCKS / name).read_text().splitlines()

    assert [line for line in lines if "://" in line or line.startswith("-")] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_package_has_a_hash(name: str) -> None:
    packages = re.split(r"^(?=[a-z0-9])", (LOCKS / name).read_text(), flags=re.MULTILINE)[1:]

    assert len(packages) == len(pins(name))
    assert [package for package in packages if "--hash=sha256:" not in package] == []


def test_shipped_packages_are_the_tested_versions() -> None:
    tested, shipped = pins("dev.txt"), pins("runtime.txt")

    assert "aiohttp" in shipped
    assert "pytest" not in shipped
    assert shipped.items() <= tested.items()
    assert pins("protoc.txt").items() <= tested.items()
