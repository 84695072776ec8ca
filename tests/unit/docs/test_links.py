"""Links of every page lead to files that exist, and each page can be found from the README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)(?:#[^)]*)?\)")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(
        page
        for folder in ("docs", "examples", "charts")
        for page in sorted((ROOT / folder).rglob("*.md"))
    ),
]


def targets(page: Path) -> list[Path]:
    """Where a page's links lead."""
    found = LINK.findall(page.read_text(encoding="utf-8"))
    return [(page.parent / target).resolve() for target in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert [str(target) for target in targets(page) if not target.exists()] == []


def test_every_page_for_users_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    open_pages = [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            open_pages += targets(page)

    wanted = {page for page in PAGES if page.parent != ROOT and "decisions" not in page.parts}
    assert {str(page.relative_to(ROOT)) for page in wanted - reached} == set()
