"""The version of this program, as it is installed."""

from __future__ import annotations

from importlib import metadata
from typing import Final

PACKAGE: Final = "gpu-scheduler"


def version() -> str:
    """The installed version; empty if the package is not installed.

    Same as the chart's ``appVersion`` and the tag of the image.
    """
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return ""


def program() -> str:
    """Name and version of this program."""
    return f"{PACKAGE} {version()}".rstrip()
