"""The list of an image's parts: what was installed, by which hash, under which licence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.image import sbom
from tools.image.layer import Layer
from tools.image.oci import Image

HASH = "a" * 64


def listed(site: Path, *lines: str, digest: str = "0" * 64) -> dict[str, Any]:
    """The list for one installed package, ``Some.Package`` 1.2."""
    folder = site / "some_package-1.2.dist-info"
    folder.mkdir(exist_ok=True)
    head = ("Metadata-Version: 2.4", "Name: Some.Package", "Version: 1.2")
    (folder / "METADATA").write_text("\n".join((*head, *lines)) + "\n")
    image = Image(name="gpu-scheduler:latest", layers=[Layer(Path("layer"), digest)])
    return sbom.document(site, {"some-package": HASH}, image)


def test_a_package_is_named_as_scanners_look_for_it(tmp_path: Path) -> None:
    document = listed(tmp_path)
    python, package = document["components"]

    assert python["purl"].startswith("pkg:generic/python@3.")
    assert package["purl"] == package["bom-ref"] == "pkg:pypi/some-package@1.2"
    assert package["hashes"] == [{"alg": "SHA-256", "content": HASH}]
    assert document["dependencies"] == [
        {"ref": "gpu-scheduler", "dependsOn": [python["bom-ref"], package["bom-ref"]]}
    ]


@pytest.mark.parametrize(
    ("lines", "licences"),
    [
        pytest.param(
            ("License-Expression: MIT OR Apache-2.0", "License: MIT"),
            [{"expression": "MIT OR Apache-2.0"}],
            id="an-expression-alone",
        ),
        pytest.param(
            ("License: text", "Classifier: License :: OSI Approved :: MIT License"),
            [{"license": {"name": "MIT License"}}],
            id="a-classifier-before-free-text",
        ),
        pytest.param(
            ("License: Apache 2.0", "Classifier: License :: OSI Approved"),
            [{"license": {"name": "Apache 2.0"}}],
            id="free-text",
        ),
        pytest.param((), [], id="nothing-said"),
    ],
)
def test_a_licence_is_what_the_package_says(
    tmp_path: Path, lines: tuple[str, ...], licences: list[object]
) -> None:
    assert listed(tmp_path, *lines)["components"][1]["licenses"] == licences


def test_the_list_is_the_same_for_the_same_image(tmp_path: Path) -> None:
    assert listed(tmp_path) == listed(tmp_path)
    assert listed(tmp_path)["serialNumber"] != listed(tmp_path, digest="1" * 64)["serialNumber"]


def test_hashes_are_those_of_the_installed_files() -> None:
    report = {
        "install": [
            {
                "metadata": {"name": "Some_Package"},
                "download_info": {"archive_info": {"hashes": {"sha256": HASH}}},
            }
        ]
    }
    assert sbom.hashes_of(report) == {"some-package": HASH}
