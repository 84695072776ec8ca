"""A check that is switched off on a line says on that line why."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.unit.docs.sources import text_files

REASON: Final = r"\s*(?:-|#|--)\s*\w+"
#: What switches off a check, and after it anything but a reason.
UNEXPLAINED: Final = (
    re.compile(rf"# noqa(?:: [A-Z0-9, ]+)?(?!{REASON})(?![A-Z0-9:, ])"),
    re.compile(rf"# type: ignore(?:\[[\w, -]+\])?(?!{REASON})(?!\[)"),
    re.compile(rf"# (?:ruff|mypy|pylint|pyright): ?[\w-]+(?!.*{REASON})"),
    re.compile(rf"# (?:pragma: no cover|nosec)\b(?!{REASON})"),
    re.compile(rf"# shellcheck disable=[A-Z0-9,]+(?!{REASON})(?![A-Z0-9,])"),
    re.compile(r"except(?: (?:Base)?Exception(?: as \w+)?)?:(?!.*# .*[a-z]{3})"),
    re.compile(r"except \(.*\b(?:Base)?Exception\b.*:(?!.*# .*[a-z]{3})"),
    re.compile(r"\bsuppress\((?:.*\W)?(?:Base)?Exception\b(?!.*# .*[a-z]{3})"),
    re.compile(r"mark\.(?:skip|xfail)(?:if)?\b(?!.*(?:reason=|# ))"),
    re.compile(r"pytest\.(?:skip|xfail)\(\s*(?:\)|\"\")"),
    re.compile(r"unittest\.skip|\bskipTest\("),
)


def is_unexplained(line: str) -> bool:
    return any(pattern.search(line) for pattern in UNEXPLAINED)


def test_suppressed_checks_have_a_reason() -> None:
    wrong = [
        f"{file}:{number}: {line.strip()}"
        for file, text in text_files()
        if file.endswith((".py", ".sh")) and file != "tests/unit/docs/test_suppressions.py"
        for number, line in enumerate(text.splitlines(), 1)
        if is_unexplained(line)
    ]

    assert wrong == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = 1  # noqa", True),
        ("x = 1  # noqa: S108", True),
        ("x = 1  # noqa: S108, S105", True),
        ("x = 1  # noqa: S108 - in the image", False),
        ("x = 1  # type: ignore[misc]", True),
        ("x = 1  # type: ignore[misc] # must fail", False),
        ("except Exception:", True),
        ("except Exception as error:  # noqa: BLE001", True),
        ("except Exception:  # noqa: BLE001 - the loop reports it", False),
        ("# ruff: noqa", True),
        ("# ruff: noqa: E501 - generated", False),
        ("# mypy: ignore-errors", True),
        ("x = 1  # pragma: no cover", True),
        ("# shellcheck disable=SC2034", True),
        ("# shellcheck disable=SC2034 # used by the caller", False),
        ("except:", True),
        ("except (ValueError, Exception):", True),
        ("except (ValueError, ApiException):", False),
        ("with contextlib.suppress(Exception):", True),
        ("with suppress(ValueError, Exception):  # it is only a hint", False),
        ("with suppress(ApiException):", False),
        ('pytest.skip("")', True),
        ('pytest.skip("needs root")', False),
        ("@pytest.mark.xfail", True),
        ('@pytest.mark.skipif(True, reason="needs root")', False),
    ],
)
def test_suppressions_without_a_reason_are_found(line: str, expected: bool) -> None:
    assert is_unexplained(line) is expected
