"""The last whole run of ``make e2e-nvidia`` in docs/conformance.md."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from tools.controlplane.programs.versions import KUBERNETES
from tools.product import ROOT

PAGE: Final = ROOT / "docs" / "conformance.md"
BEGIN: Final = "<!-- e2e-nvidia: written by make e2e-nvidia -->"
END: Final = "<!-- e2e-nvidia: end -->"


class Recorder:
    """Collects the results of this folder's tests; a plugin of pytest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_whole = True
        self._results: dict[str, str] = {}
        self.versions: tuple[str, ...] = ()

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """A run without some of the tests is not recorded."""
        self._is_whole &= not any(self._folder in item.path.parents for item in items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has passed if its setup, its call and its teardown have."""
        worst = self._results.get(report.nodeid, "passed")
        self._results[report.nodeid] = "failed" if report.failed else worst

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the table, if all tests ran."""
        items = [item for item in session.items if self._folder in item.path.parents]
        ran = {item.path for item in items if item.nodeid in self._results}
        files = {*self._folder.glob("test_*.py")}
        if self._is_whole and len(self._results) == len(items) and ran == files and self.versions:
            shown = {_name(item): _sentence(item) for item in items}
            results = {_name(item): self._results[item.nodeid] for item in items}
            write(table(self.versions, shown, results))


def table(versions: Iterable[str], shown: Mapping[str, str], results: Mapping[str, str]) -> str:
    """What each test shows, and its result."""
    day = datetime.now(UTC).date().isoformat()
    lines = [
        f"{day}: Kubernetes {KUBERNETES}; {'; '.join(versions)}.",
        "",
        "| test | shows | result |",
        "|---|---|---|",
    ]
    lines += [f"| `{name}` | {shown[name]} | {results[name]} |" for name in shown]
    return "\n".join(lines)


def write(text: str, page: Path = PAGE) -> None:
    """Put the table between its marks."""
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, found, tail = rest.partition(END)
    assert found, f"{page}: no marks {BEGIN}, {END}"
    page.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


def _name(item: pytest.Item) -> str:
    return f"{item.path.relative_to(ROOT)}::{item.name}"


def _sentence(item: pytest.Item) -> str:
    text = inspect.getdoc(getattr(item, "function", None)) or ""
    return " ".join(text.split())
