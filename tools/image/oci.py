"""An archive of images in the OCI layout, as containerd, Docker and Podman load it.

Shared layers are stored once. The archive contains no time and no host, so the same layers give the
same bytes.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tools.image.layer import Layer, add

Blob = Path | bytes
_MEDIA: Final = "application/vnd.oci.image"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image: name, layers and container configuration."""

    name: str
    layers: Sequence[Layer]
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    )
    user: str = ""
    folder: str = "/"
    ports: Sequence[str] = ()

    def config(self) -> dict[str, Any]:
        """The image configuration."""
        return {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {
                "User": self.user,
                "ExposedPorts": {f"{port}/tcp": {} for port in self.ports},
                "Env": [f"{name}={value}" for name, value in self.environment.items()],
                "Entrypoint": list(self.entrypoint),
                "Cmd": list(self.command),
                "WorkingDir": self.folder,
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{layer.digest}" for layer in self.layers],
            },
        }


def full_name(name: str) -> str:
    """The full name of an image without a registry, as runtimes expand it."""
    first, slash, _ = name.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


def write_archive(target: Path, images: Sequence[Image]) -> Path:
    """Write the archive for ``ctr images import`` atomically."""
    blobs: dict[str, Blob] = {}
    manifests = []
    for image in images:
        for layer in image.layers:
            blobs[layer.digest] = layer.path
        config = _json(image.config())
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": _stored(blobs, f"{_MEDIA}.config.v1+json", config),
            "layers": [_described(f"{_MEDIA}.layer.v1.tar", one) for one in image.layers],
        }
        stored = _stored(blobs, f"{_MEDIA}.manifest.v1+json", _json(manifest))
        names = {
            "io.containerd.image.name": full_name(image.name),
            "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
        }
        manifests.append(stored | {"annotations": names})
    index = {"schemaVersion": 2, "mediaType": f"{_MEDIA}.index.v1+json", "manifests": manifests}
    fresh = target.with_suffix(".new")
    with tarfile.open(fresh, "w") as archive:
        add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        add(archive, "index.json", _json(index))
        for digest, blob in sorted(blobs.items(), key=lambda each: each[0]):
            add(archive, f"blobs/sha256/{digest}", blob)
    return fresh.replace(target)


def _stored(blobs: dict[str, Blob], media: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}


def _described(media: str, layer: Layer) -> dict[str, Any]:
    size = layer.path.stat().st_size
    return {"mediaType": media, "digest": f"sha256:{layer.digest}", "size": size}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
