"""A field that the API server rejects, and readers that accept values of any type.

A value of a wrong type is no problem here: the decoders report it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuctl.simulate.manifests import Raw, object_of

REQUIRED = "is required"


class Problem(NamedTuple):
    """``path`` is the one of the API server's message."""

    path: str
    text: str


def items(holder: Raw, field: str, path: str) -> Iterator[tuple[str, Raw]]:
    """Each object of a list, with its path below ``path``."""
    listed = holder.get(field)
    for position, item in enumerate(listed if isinstance(listed, list) else ()):
        yield f"{path}{field}[{position}]", object_of(item)


def strings(holder: Raw, field: str) -> Iterator[tuple[str, str]]:
    """Each key of an object with a string."""
    for key, value in object_of(holder.get(field)).items():
        if isinstance(value, str):
            yield key, value


def one_of(holder: Raw, field: str, allowed: tuple[str, ...], path: str) -> Iterator[Problem]:
    """A value, if there is one, must be one of these."""
    value = holder.get(field)
    if isinstance(value, str) and value not in allowed:
        yield Problem(f"{path}{field}", f"{value!r} is not one of {', '.join(allowed)}")
