"""The files of the web pages: read once, served with a hash of their content as ETag.

Only files that lie in the folder have a path, so no request can name another one.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = Path(__file__).resolve().parents[2] / "dashboard_assets"
INDEX: Final = "index.html"
TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".txt": "text/plain",
}
HASH_LENGTH: Final = 32


class Asset(msgspec.Struct, frozen=True):
    """One file."""

    content: bytes
    content_type: str
    etag: str


def read_assets(folder: Path = FOLDER) -> dict[str, Asset]:
    """The files of known types in the folder, by their path below it."""
    return {
        path.relative_to(folder).as_posix(): _asset(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix in TYPES
    }


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:HASH_LENGTH]
    return Asset(content=content, content_type=TYPES[path.suffix], etag=digest)
