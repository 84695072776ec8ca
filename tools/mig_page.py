"""``python -m tools.mig_page``: write the tables of docs/mig.md from the product's own geometry.

The sources of each GPU model's numbers are here and not in the product, because they change no
decision.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig import layout_cost

PAGE: Final = Path(__file__).parents[1] / "docs" / "mig.md"
BEGIN: Final = "<!-- written by python -m tools.mig_page, not edited by hand -->\n"
END: Final = "<!-- end of what is written -->\n"

LISTED: Final = "listing"
GUIDE: Final = "guide"
ANALOGY: Final = "analogy"

#: GPU model -> its cards, source of the profile names, source of the placement starts.
SOURCES: Final = {
    "A100-40": ("A100 40 GB, A800 40 GB", LISTED, LISTED),
    "A100-80": ("A100 80 GB, A800 80 GB", LISTED, LISTED),
    "H100-80": ("H100 80 GB, H800", LISTED, LISTED),
    "H100-94": ("H100 NVL", LISTED, LISTED),
    "H100-96": ("H100 96 GB, GH200 480 GB, H20", GUIDE, ANALOGY),
    "GH200-144": ("GH200 144 GB", GUIDE, ANALOGY),
    "H200-141": ("H200, H200 NVL, H20 141 GB", LISTED, LISTED),
    "H200-70": ("none: the card of the local MIG cluster", "simulated", ANALOGY),
    "B200-180": ("B200", LISTED, LISTED),
    "GB200-186": ("GB200", "guide; the early names in reports", "another product's tests"),
    "B300-269": ("B300", GUIDE, ANALOGY),
    "GB300-278": ("GB300", GUIDE, "another product's tests"),
    "A30-24": ("A30", GUIDE, GUIDE),
    "RTX-PRO-6000": ("RTX PRO 6000 Blackwell", GUIDE, ANALOGY),
    "RTX-PRO-5000": ("RTX PRO 5000 Blackwell", GUIDE, ANALOGY),
    "RTX-PRO-4500": ("RTX PRO 4500 Blackwell", GUIDE, ANALOGY),
}


def render() -> str:
    """The part of the page between the two markers."""
    parts = (_boards(), _kinds(), _first())
    return "\n" + "\n\n".join("\n".join(part) for part in parts) + "\n\n"


def _boards() -> Iterator[str]:
    yield "| GPU model | cards | profiles | source of names | source of starts |"
    yield "|---|---|---|---|---|"
    for gpu_model in mig_layout.GPU_MODELS.values():
        cards, named, placed = SOURCES[gpu_model.name]
        profiles = " ".join(f"`{name}`" for name in gpu_model.profiles)
        if gpu_model.aliases:
            profiles += "; also " + " ".join(f"`{name}`" for name in gpu_model.aliases)
        yield f"| {gpu_model.name} | {cards} | {profiles} | {named} | {placed} |"


def _kinds() -> Iterator[str]:
    yield (
        "| GPU model with | kind | start slices | memory slices | compute slices | maximum"
        " | driver's id |"
    )
    yield "|---|---|---|---:|---:|---:|---:|"
    for kind in mig_layout.ProfileShape:
        starts = ", ".join(map(str, kind.starts))
        number = "unknown" if kind.profile_id is None else kind.profile_id
        yield (
            f"| {kind.model_slices} slices | {kind.label} | {starts} | {kind.size} |"
            f" {kind.compute} | {kind.max_count} | {number} |"
        )


def _first() -> Iterator[str]:
    """The start of the first instance on an empty GPU of seven compute slices, and the rest."""
    gpu_model = layout_cost.shape_of(8)
    plain = [profile for profile in gpu_model.plain if profile.size < gpu_model.memory_slices]
    yield (
        "| first instance | cost delta | "
        + " | ".join(f"{p.kind.label} left" for p in plain)
        + " |"
    )
    yield "|---|---:|" + "---:|" * len(plain)
    for profile in plain:
        best = layout_cost.best_start(gpu_model, (), profile.name)
        for start in profile.starts:
            layout = ((profile.name, start),)
            more = mig_layout.capacity(gpu_model, layout)
            chosen = "**" if best is not None and best[0] == start else ""
            left = " | ".join(str(more[other.name]) for other in plain)
            cost = layout_cost.cost(gpu_model, layout)
            yield f"| {chosen}{profile.kind.label} at {start}{chosen} | {cost:+.2f} | {left} |"


def main() -> int:
    """Write the tables into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + render() + END + after, encoding="utf-8")
    print(f"docs/{PAGE.name}: {len(mig_layout.GPU_MODELS)} boards")
    return 0


if __name__ == "__main__":
    sys.exit(main())
