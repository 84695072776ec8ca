"""One layer of an image: a reproducible tar, whose bytes depend on its files only.

Times and owners are fixed, and names are sorted. Of a file's mode only the execute bits are kept.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple


class Link(NamedTuple):
    """A symbolic link."""

    target: str


#: Absolute path in the image -> a file of this machine, its content, or a link.
Files = Mapping[str, Path | bytes | Link]
#: The directories of a base layer.
FOLDERS: Final = ("/tmp", "/proc", "/sys", "/dev", "/etc", "/run", "/var/run")  # noqa: S108 - in the image


class Layer(NamedTuple):
    """A written layer, identified by its digest."""

    path: Path
    digest: str


def write_layer(path: Path, files: Files, folders: tuple[str, ...] = ()) -> Layer:
    """Write the files with all parent directories."""
    above = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as layer:
        for folder in sorted({*above, *folders} - {"/"}):
            member = tarfile.TarInfo(folder.lstrip("/"))
            member.type = tarfile.DIRTYPE
            member.mode = 0o1777 if folder == "/tmp" else 0o755  # noqa: S108 - in the image
            layer.addfile(member)
        for name, source in sorted(files.items(), key=lambda each: each[0]):
            add(layer, name.lstrip("/"), source)
    return Layer(path, digest_of(path))


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as written:
        return hashlib.file_digest(written, "sha256").hexdigest()


def add(archive: tarfile.TarFile, name: str, source: Path | bytes | Link) -> None:
    """Add one file under a name."""
    member = tarfile.TarInfo(name)
    if isinstance(source, Link):
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, source.target, 0o777
        archive.addfile(member)
        return
    if isinstance(source, bytes):
        member.size, member.mode = len(source), 0o644
        archive.addfile(member, io.BytesIO(source))
        return
    status = source.stat()
    member.size, member.mode = status.st_size, 0o755 if status.st_mode & 0o111 else 0o644
    with source.open("rb") as content:
        archive.addfile(member, content)
