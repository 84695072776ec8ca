"""The examples in docstrings: a renamed function must be renamed there too."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import Final

import pytest

from tests.unit.docs.sources import ROOT

PACKAGES: Final = ("scheduler", "webhook", "gpuctl", "gpucheck", "fakegpu", "tools", "bench")


def with_examples() -> list[str]:
    """The modules with examples."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    return [_module(file) for file in files if ">>> " in file.read_text(encoding="utf-8")]


def _module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("name", with_examples())
def test_docstring_examples_give_what_they_show(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert found.attempted
    assert not found.failed
