"""Archives of images: the same files are the same bytes, and both names are found."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tools.image import dockerfile
from tools.image.build import image
from tools.image.layer import Layer, Link, write_layer
from tools.image.oci import Image, full_name, write_archive


def layer_of(folder: Path, *, time_s: int = 0, mode: int = 0o755) -> Layer:
    """A layer of a program that was written at some time."""
    folder.mkdir()
    program = folder / "program"
    program.write_text("#!/bin/sh")
    program.chmod(mode)
    os.utime(program, (time_s, time_s))
    files: dict[str, Path | bytes | Link] = {
        "/usr/bin/sh": Link("program"),
        "/usr/bin/program": program,
        "/etc/passwd": b"root",
    }
    if time_s:
        files = dict(reversed(files.items()))
    return write_layer(folder / "layer.tar", files, ("/tmp",))  # noqa: S108 - in the image


def test_a_layer_depends_on_its_files_alone(tmp_path: Path) -> None:
    """Neither on their times, nor on their order, nor on who else may read them."""
    one = layer_of(tmp_path / "one")
    two = layer_of(tmp_path / "two", time_s=1_700_000_000, mode=0o700)
    other = layer_of(tmp_path / "other", mode=0o644)

    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.digest == two.digest != other.digest


def test_a_layer_holds_files_links_and_the_folders_above(tmp_path: Path) -> None:
    with tarfile.open(layer_of(tmp_path / "one").path) as layer:
        seen = {member.name: (oct(member.mode), member.linkname) for member in layer}
        assert {(member.uid, member.gid, member.mtime) for member in layer} == {(0, 0, 0)}
    assert seen == {
        "etc": ("0o755", ""),
        "etc/passwd": ("0o644", ""),
        "tmp": ("0o1777", ""),
        "usr": ("0o755", ""),
        "usr/bin": ("0o755", ""),
        "usr/bin/program": ("0o755", ""),
        "usr/bin/sh": ("0o777", "program"),
    }


def blobs_of(archive: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """An archive's index and its blobs."""
    with tarfile.open(archive) as opened:
        content = {one.name: opened.extractfile(one) for one in opened}
        read = {name: file.read() for name, file in content.items() if file is not None}
    assert json.loads(read["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    blobs = {name.rpartition("/")[2]: read[name] for name in read if name.startswith("blobs/")}
    assert all(hashlib.sha256(blob).hexdigest() == digest for digest, blob in blobs.items())
    return json.loads(read["index.json"]), blobs


def test_images_of_one_archive_share_their_layers(tmp_path: Path) -> None:
    layer = layer_of(tmp_path / "one")
    images = [Image(name=name, layers=[layer], command=[name]) for name in ("a:1", "b:2")]

    first = write_archive(tmp_path / "first.tar", images).read_bytes()
    index, blobs = blobs_of(write_archive(tmp_path / "second.tar", images))

    assert (tmp_path / "second.tar").read_bytes() == first
    assert len(blobs) == 5, "one layer, two configurations, two manifests"
    names = [one["annotations"]["org.opencontainers.image.ref.name"] for one in index["manifests"]]
    assert names == ["1", "2"]
    for described in index["manifests"]:
        manifest = json.loads(blobs[described["digest"].removeprefix("sha256:")])
        assert [one["digest"] for one in manifest["layers"]] == [f"sha256:{layer.digest}"]


@pytest.mark.parametrize(
    ("name", "full"),
    [
        pytest.param("localhost/a:1", "localhost/a:1", id="this-machine"),
        pytest.param("registry.example/a:1", "registry.example/a:1", id="a-registry"),
        pytest.param("host:5000/a:1", "host:5000/a:1", id="a-port"),
    ],
)
def test_a_name_with_a_registry_stays_as_it_is(name: str, full: str) -> None:
    assert full_name(name) == full


def test_a_name_without_a_registry_is_completed_as_runtimes_do() -> None:
    assert full_name("a:1").endswith("/library/a:1")
    assert full_name("team/a:1").endswith("/team/a:1")
    assert full_name("team/a:1").count("/") == 2


@pytest.mark.contract("S2-23")
@pytest.mark.parametrize(
    ("name", "command", "ports"),
    [
        pytest.param("gpu-scheduler", "scheduler", {"8080", "8443", "8444"}, id="scheduler"),
        pytest.param("gpu-scheduler-check", "gpucheck", set(), id="check"),
    ],
)
def test_an_image_says_what_the_dockerfile_says(name: str, command: str, ports: set[str]) -> None:
    """User, programs, environment and ports; there is no second place that says them."""
    stages = dockerfile.read()
    layer = Layer(Path("layer"), "0" * 64)

    said = image(f"{name}:latest", stages[name], (layer,)).config()["config"]

    assert said == {
        "User": "65532:65532",
        "Entrypoint": ["python", "-m"],
        "Cmd": [command],
        "WorkingDir": "/",
        "Env": [
            "PATH=/opt/gpu-scheduler/bin:/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONUNBUFFERED=1",
        ],
        "ExposedPorts": {f"{port}/tcp": {} for port in ports},
    }
