"""docs/maps.md has the code's own table of what numbers pods."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.pods.pod_index import SOURCES, Source
from tools.map_indexes import PAGE, render


def test_index_source_table_equals_the_code() -> None:
    """Run `python -m tools.map_indexes` after a change of the sources."""
    page = PAGE.read_text(encoding="utf-8")

    assert page == render(page)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.owners[0]}:{source.also}")
def test_every_index_source_names_its_writer_and_prefixed_labels(source: Source) -> None:
    spelled = {value for key, value in vars(well_known).items() if key.isupper()}

    assert source.origin
    assert set(source.labels) <= spelled
    assert source.labels or source.also
