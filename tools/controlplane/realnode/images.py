"""Container images without a container engine: a docker-archive made of this machine's own files.

No registry can be asked on the machines where tests run, so an image is a shell with a few tools,
copied from where they lie. The same input makes the same
bytes: times and owners are fixed.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

#: Absolute path in the image -> a file of this machine, or its content.
Files = Mapping[str, Path | bytes]
FOLDERS: Final = ("/tmp", "/proc", "/sys", "/dev", "/etc", "/run", "/var/run")  # noqa: S108
PASSWD: Final = b"root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532:nonroot:/:/bin/sh\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image holds and how its containers start."""

    name: str
    files: Files
    entrypoint: Sequence[str] = ()
    environment: Sequence[str] = ("PATH=/usr/local/bin:/usr/bin:/bin",)
    user: str = ""

    def write(self, target: Path) -> Path:
        """Write the archive that ``ctr images import`` reads."""
        layer = target.with_suffix(".layer")
        digest = _write_layer(layer, self.files)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": list(self.entrypoint),
                "Env": list(self.environment),
                "User": self.user,
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
        manifest = [{"Config": "config.json", "RepoTags": [self.name], "Layers": ["layer.tar"]}]
        with tarfile.open(target, "w") as archive:
            _add(archive, "config.json", json.dumps(config).encode())
            _add(archive, "manifest.json", json.dumps(manifest).encode())
            _add(archive, "layer.tar", layer)
        layer.unlink()
        return target


def _write_layer(path: Path, files: Files) -> str:
    whole: dict[str, Path | bytes] = {"/etc/passwd": PASSWD, **files}
    folders = {str(parent) for name in whole for parent in PurePosixPath(name).parents} - {"/"}
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as layer:
        for folder in sorted({*folders, *FOLDERS}):
            member = tarfile.TarInfo(folder.lstrip("/"))
            member.type = tarfile.DIRTYPE
            member.mode = 0o1777 if folder == "/tmp" else 0o755  # noqa: S108 - in the image
            layer.addfile(member)
        for name, source in sorted(whole.items()):
            _add(layer, name.lstrip("/"), source)
    with path.open("rb") as written:
        return hashlib.file_digest(written, "sha256").hexdigest()


def _add(archive: tarfile.TarFile, name: str, source: Path | bytes) -> None:
    member = tarfile.TarInfo(name)
    if isinstance(source, bytes):
        member.size, member.mode = len(source), 0o644
        archive.addfile(member, io.BytesIO(source))
        return
    status = source.stat()
    member.size, member.mode = status.st_size, 0o755 if status.st_mode & 0o111 else 0o644
    with source.open("rb") as content:
        archive.addfile(member, content)
