"""docs/maps.md has the code's own table of what numbers pods."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.pod_index import SOURCES, Source
from tools.map_indexes import PAGE, render


def test_the_table_of_what_numbers_pods_is_fresh() -> None:
    """Run `python -m tools.map_indexes` after a change of the sources."""
    page = PAGE.read_text(encoding="utf-8")

    assert page == render(page)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.owners[0]}:{source.also}")
def test_every_source_says_who_writes_it_and_reads_only_labels_with_a_name(source: Source) -> None:
    spelled = {value for key, value in vars(well_known).items() if key.isupper()}

    assert source.origin
    assert set(source.labels) <= spelled
    assert source.labels or source.also
