"""Semantic versions in CEL: bytes whose order is the precedence of semver 2.0.0.

The functions are those of ``k8s.io/apiserver/pkg/cel/library/semverlib.go``. An error of an
expression is a ValueError.
"""

from __future__ import annotations

import re
from typing import Final

_MARK: Final = b"v"
_PARTS: Final = 3
_UINT64_MAX: Final = 2**64 - 1
_DIGITS: Final = 20
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_LABEL: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-({_LABEL}(?:\.{_LABEL})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
#: A release is above its prereleases. A label ends below each character of a longer one.
_RELEASE: Final = "~"
_LABEL_END: Final = "!"


def semver(text: str, normalize: bool = False) -> bytes:
    """A version; with ``normalize`` also one with ``v``, with leading zeros, or a short one.

    >>> semver("1.2.0-rc.1") < semver("v01.2", True) < semver("1.10.0")
    True
    """
    match = _SEMVER.fullmatch(_normalized(text) if normalize else text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a semantic version")
    numbers = "".join(_number(match[index]) for index in range(1, _PARTS + 1))
    labels = "".join(map(_label, match[4].split("."))) if match[4] else _RELEASE
    return _MARK + (numbers + labels).encode()


def is_semver(text: str, normalize: bool = False) -> bool:
    """Whether a text is a version."""
    try:
        semver(text, normalize)
    except ValueError:
        return False
    return True


def major(version: bytes) -> int:
    """The first number."""
    return _part(version, 0)


def minor(version: bytes) -> int:
    """The second number."""
    return _part(version, 1)


def patch(version: bytes) -> int:
    """The third number."""
    return _part(version, 2)


def _part(version: bytes, index: int) -> int:
    if not version.startswith(_MARK):
        raise ValueError("no such overload: a version is expected")
    start = len(_MARK) + index * _DIGITS
    return int(version[start : start + _DIGITS])


def _label(label: str) -> str:
    """A label of a prerelease; numbers are below texts."""
    return (f"0{_number(label)}" if label.isdigit() else f"1{label}") + _LABEL_END


def _number(digits: str) -> str:
    """A number of at most 64 bits, as Go reads it, in digits of one length."""
    if len(digits) > _DIGITS or int(digits) > _UINT64_MAX:
        raise ValueError(f"{digits[:60]} is out of the range of a version's number")
    return digits.zfill(_DIGITS)


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", _PARTS - 1)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in tuple("0123456789") else "0" + stripped
    if len(parts) < _PARTS and re.search(r"[+-]", parts[-1]):
        raise ValueError("a short version has no prerelease and no build")
    return ".".join(parts + ["0"] * (_PARTS - len(parts)))
