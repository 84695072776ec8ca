"""docs/fakegpu.md shows the configuration and the names as they are."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from fakegpu import names
from fakegpu.catalog.products import PRODUCTS
from fakegpu.config import Config, parse
from fakegpu.topology.document import read_topology

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "fakegpu.md").read_text(encoding="utf-8")
*POOLS, CONFIGURATION = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_configuration_shown_is_the_default_one() -> None:
    assert parse(CONFIGURATION.encode()) == Config()
    shown = msgspec.yaml.decode(CONFIGURATION.encode())
    whole = msgspec.to_builtins(Config())
    assert shown.keys() == whole.keys()
    for key, section in whole.items():
        if isinstance(section, dict):
            assert shown[key].keys() == section.keys(), key


def test_the_pools_shown_can_be_used() -> None:
    for text, count in zip(POOLS, (5, 1), strict=True):
        topology = read_topology(text)

        assert topology.problems == {}
        assert len(topology.pools) == count


def test_every_name_that_users_write_is_explained() -> None:
    for name in (
        names.FAILURES,
        names.ALLOCATABLE,
        names.MIG_FAULTS,
        names.UNUSABLE,
        names.GPU_IDS,
    ):
        assert f"`{name}" in PAGE


@pytest.mark.parametrize("kind", sorted({kind.partition("-")[0] for kind in PRODUCTS}))
def test_every_family_of_the_catalog_is_named(kind: str) -> None:
    assert kind.upper() in PAGE
