"""Texts that users read: no word for the replaced systems, and a tag on every image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest
import yaml

from tests.unit.docs.sources import ROOT, text_files

_SEED: Final = re.compile(r"\bseeds?\b", re.IGNORECASE)
#: The page about those systems, and pages about sequences with the seeds of random numbers.
_EXCEPT: Final = {
    "docs/contracts.md",
    "docs/conformance.md",
    "docs/performance.md",
    "docs/decisions/0008-what-a-node-says-of-its-gpus.md",
    "docs/decisions/0035-certain-plans.md",
}
_FOR_USERS: Final = ("argocd/", "charts/", "docs/", "examples/", "manifests/")
#: A repository with or without a tag or a digest, as a value of YAML.
_IMAGE: Final = re.compile(r"\bimage: *\"?([a-z0-9][\w./:@-]*)\"?(?= *(?:$|[,}]))", re.MULTILINE)
_HAS_TAG: Final = re.compile(r"(:(?!latest$)[\w.-]+|@sha256:[0-9a-f]{64})$")
#: A command that installs the distribution by its name alone.
_BY_NAME: Final = re.compile(
    r"(?:\b(?:install|run|inject)|--from) +['\"]?gpu[-_]scheduler(?:\[\w+\])?(?:['\"`]| *$)"
)
#: Where an image has no tag on purpose, and its text.
_EXCEPTED: Final = {"argocd/": "registry.example.com/gpu-scheduler"}


def texts_for_users() -> Iterator[tuple[str, str]]:
    """README, documents, charts with their values, and examples."""
    for name, text in text_files():
        if name == "README.md" or name.startswith(_FOR_USERS):
            yield name, text


def untagged(name: str, text: str) -> list[str]:
    """The images in a text without a tag; those in ArgoCD's sets are values of image.repository."""
    excepted = [start for place, start in _EXCEPTED.items() if name.startswith(place)]
    return [
        image
        for image in _IMAGE.findall(text)
        if _HAS_TAG.search(image) is None and not image.startswith(tuple(excepted))
    ]


def test_user_texts_do_not_speak_of_the_seed_systems() -> None:
    found = {
        f"{name}: {line.strip()[:80]}"
        for name, text in texts_for_users()
        for line in (name, *text.splitlines())
        if name not in _EXCEPT and _SEED.search(line)
    }

    assert found == set()


def test_every_image_in_texts_for_users_has_a_tag() -> None:
    found = {
        name: images
        for name, text in texts_for_users()
        if not name.startswith("docs/decisions/") and (images := untagged(name, text))
    }

    assert found == {}


def test_texts_install_gpu_scheduler_from_its_wheel_only() -> None:
    """Another project has the name on the Python package index."""
    found = {
        f"{name}: {line.strip()[:80]}"
        for name, text in text_files()
        for line in text.splitlines()
        if name != "tests/unit/docs/test_user_texts.py" and _BY_NAME.search(line)
    }

    assert found == set()


@pytest.mark.parametrize(
    ("image", "is_found"),
    [
        pytest.param("image: nvidia/cuda", True, id="no-tag"),
        pytest.param("image: nvidia/cuda:latest", True, id="latest"),
        pytest.param("{name: a, image: host:5000/a, x: 1}", True, id="port-is-no-tag"),
        pytest.param('{name: a, image: "nvidia/cuda:12.4.1"}', False, id="tag"),
        pytest.param(f"image: a@sha256:{64 * '0'}", False, id="digest"),
        pytest.param("image: {{ .image }}", False, id="template"),
    ],
)
def test_images_without_a_tag_are_found(image: str, is_found: bool) -> None:
    assert bool(untagged("docs/page.md", image)) == is_found


def test_every_image_of_the_plain_manifests_has_a_tag() -> None:
    for path in sorted((ROOT / "webhook/deploy").glob("*.yaml")):
        assert untagged("webhook", yaml.safe_dump(path.read_text())) == []
