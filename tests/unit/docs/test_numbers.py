"""Numbers that are written down in several places agree with each other and with the hardware."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest
import yaml

from scheduler import config

ROOT = Path(__file__).resolve().parents[3]
CARDS = 4
SLICES_PER_CARD = 7


@pytest.mark.contract("S0-B11", "S0-3")
def test_demo_mig_nodes_have_a_possible_layout() -> None:
    """28 x 1g, and 12 x 2g with 4 x 1g: each uses all seven slices of each of four cards."""
    documents = yaml.safe_load_all(
        (ROOT / "tools" / "demo" / "scenarios" / "mig.yaml").read_text(encoding="utf-8")
    )
    nodes = {
        body["metadata"]["name"]: body["status"]["allocatable"]
        for body in documents
        if body and body["kind"] == "Node"
    }
    cuts = {
        name: {
            resource.removeprefix("nvidia.com/mig-"): int(count)
            for resource, count in amounts.items()
            if resource.startswith("nvidia.com/mig-")
        }
        for name, amounts in nodes.items()
    }

    assert cuts == {"small": {"1g.10gb": 28}, "medium": {"2g.20gb": 12, "1g.10gb": 4}}
    for cut in cuts.values():
        used = sum(int(profile.partition("g.")[0]) * count for profile, count in cut.items())
        assert used == CARDS * SLICES_PER_CARD


def leaves(kind: type[msgspec.Struct]) -> set[str]:
    """The names of all settings below a section."""
    found = set()
    for field in msgspec.structs.fields(kind):
        inner = field.type
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            found |= leaves(inner)
        else:
            found.add(field.name)
    return found


@pytest.mark.contract("S2-B16")
def test_every_configuration_key_is_read_somewhere_in_the_product() -> None:
    read = {
        node.attr
        for path in (ROOT / "scheduler").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }

    assert leaves(config.Config) - read == set()
