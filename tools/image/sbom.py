"""The image's SBOM in CycloneDX: each package with version, hashes and licence.

The hashes are those of the wheels that pip checked against the lock file, the licences come from
the packages' metadata. The SBOM contains no time, so the same image gives the same bytes.
"""

from __future__ import annotations

import json
import platform
import re
import uuid
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tools.image.oci import Image
from tools.image.packages import REPORT, SITE

SPEC: Final = "1.6"
_SAYS_NOTHING: Final = "License :: OSI Approved"


def text(installed: Path, image: Image) -> str:
    """The SBOM of an image with the packages of a directory."""
    hashes = hashes_of(json.loads((installed / REPORT).read_text(encoding="utf-8")))
    return json.dumps(document(installed / SITE, hashes, image), indent=2) + "\n"


def document(site: Path, hashes: Mapping[str, str], image: Image) -> dict[str, Any]:
    """The SBOM as an object."""
    installed = sorted(metadata.distributions(path=[str(site)]), key=_name)
    parts = [_python(), *(_component(one, hashes) for one in installed)]
    name, _, tag = image.name.partition(":")
    digests = " ".join(layer.digest for layer in image.layers)
    whole = {"type": "container", "bom-ref": name, "name": name, "version": tag}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digests)}",
        "version": 1,
        "metadata": {"component": whole},
        "components": parts,
        "dependencies": [{"ref": name, "dependsOn": [one["bom-ref"] for one in parts]}],
    }


def hashes_of(report: Mapping[str, Any]) -> dict[str, str]:
    """The SHA-256 of each package's file, by the package's name."""
    return {
        _plain(one["metadata"]["name"]): one["download_info"]["archive_info"]["hashes"]["sha256"]
        for one in report["install"]
    }


def _component(one: metadata.Distribution, hashes: Mapping[str, str]) -> dict[str, Any]:
    purl = f"pkg:pypi/{_name(one)}@{one.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": _name(one),
        "version": one.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": hashes[_name(one)]}],
        "licenses": _licences(one),
    }


def _licences(one: metadata.Distribution) -> list[dict[str, Any]]:
    for expression in _said(one, "License-Expression"):
        return [{"expression": expression}]
    named = [
        line.rpartition(" :: ")[2]
        for line in _said(one, "Classifier")
        if line.startswith("License :: ") and line != _SAYS_NOTHING
    ]
    # Some packages have the whole licence text there; its first line is the name.
    free = [line.strip().splitlines()[0] for line in _said(one, "License") if line.strip()]
    return [{"license": {"name": each}} for each in named or free]


def _said(one: metadata.Distribution, key: str) -> list[str]:
    return one.metadata.get_all(key) or []


def _python() -> dict[str, Any]:
    version = platform.python_version()
    reference = f"pkg:generic/python@{version}"
    licence = {"license": {"id": "Python-2.0"}}
    return {
        "type": "platform",
        "bom-ref": reference,
        "name": "python",
        "version": version,
        "purl": reference,
        "licenses": [licence],
    }


def _name(one: metadata.Distribution) -> str:
    return _plain(one.metadata["Name"])


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
