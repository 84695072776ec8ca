"""``python -m tools.layout_cost``: solve the layout-cost table and write it as data.

The model is one GPU: requests for every profile arrive, each takes the cheapest start, requests
without room are lost, running instances end at rate 1, and every free memory slice costs 1 per unit
of time. The long-run average does not depend on the start. The entry of a layout is its total cost
*relative to* the empty GPU. Value iteration on the uniformised chain computes it.

The mix is uniform with load 1.0 times :data:`PRESSURE`, because a GPU of a pool also receives
requests that others cannot place. The table does not depend on the cluster: one for the actual mix
was tried and is worse under churn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.layout_cost import SHAPES, shape_of

PAGE: Final = Path(__file__).parents[1] / "scheduler" / "model" / "mig" / "layout_cost_table.py"
#: The factor of the offered load; chosen by simulation of pools.
PRESSURE: Final = 3.5
#: The iteration ends if no relative entry changes by more than this.
SPAN: Final = 1e-7
DIGITS: Final = 4

HEAD: Final = '''\
"""What each layout costs; written by ``python -m tools.layout_cost``, not edited by hand.

For each number of memory slices the entries stand in the order of ``mig.layouts`` for the board
that ``layoutcost.SHAPES`` names; there is no other place where that order matters.
"""

from __future__ import annotations

from typing import Final

# fmt: off
TABLES: Final[dict[int, tuple[float, ...]]] = {
'''


class Chain:
    """The Markov chain of one GPU: its layouts and their successors."""

    def __init__(self, board: mig_layout.GpuModel) -> None:
        self.layouts = list(mig_layout.layouts(board))
        place = {layout: index for index, layout in enumerate(self.layouts)}
        self.free = [
            float(board.memory_slices - mig_layout.occupancy(board, layout).bit_count())
            for layout in self.layouts
        ]
        #: for each layout, for each profile that fits, the layouts that may follow
        self.arrivals: list[list[list[int]]] = []
        #: for each layout, the layout after each of its instances has ended
        self.departures: list[list[int]] = []
        for layout in self.layouts:
            self.arrivals.append(
                [
                    [place[mig_layout.with_slot(layout, profile.name, start)] for start in starts]
                    for profile in board.plain
                    if (starts := mig_layout.fits(board, layout, profile.name))
                ]
            )
            self.departures.append(
                [place[layout[:at] + layout[at + 1 :]] for at in range(len(layout))]
            )
        self.rate = PRESSURE * board.memory_slices / sum(p.size for p in board.plain)
        self.uniform = self.rate * len(board.plain) + max(map(len, self.layouts))

    def step(self, cost: list[float]) -> list[float]:
        """One sweep of value iteration."""
        after: list[float] = []
        for index, free in enumerate(self.free):
            offers, ends = self.arrivals[index], self.departures[index]
            total = free
            for starts in offers:
                total += self.rate * min([cost[at] for at in starts])
            for at in ends:
                total += cost[at]
            stays = self.uniform - self.rate * len(offers) - len(ends)
            after.append((total + stays * cost[index]) / self.uniform)
        return after


def solve(board: mig_layout.GpuModel) -> list[float]:
    """The relative cost of each layout of a board, in the order of ``mig.layouts``."""
    chain = Chain(board)
    cost = [0.0] * len(chain.layouts)
    while True:
        after = chain.step(cost)
        moves = [new - old for new, old in zip(after, cost, strict=True)]
        cost = [value - after[0] for value in after]
        if max(moves) - min(moves) < SPAN:
            return [round(value, DIGITS) + 0.0 for value in cost]


def render() -> str:
    """The data file's text."""
    lines = [HEAD.rstrip("\n")]
    for slices in sorted(SHAPES):
        lines.append(f"    {slices}: (")
        lines += _rows(solve(shape_of(slices)))
        lines.append("    ),")
    return "\n".join([*lines, "}", "# fmt: on", ""])


def _rows(values: list[float]) -> Iterator[str]:
    row = " " * 7
    for value in values:
        word = f" {value!r},"
        if len(row) + len(word) > 100:
            yield row
            row = " " * 7
        row += word
    yield row


def main() -> int:
    """Write the table."""
    PAGE.write_text(render(), encoding="utf-8")
    print(f"scheduler/model/{PAGE.name}: " + ", ".join(f"{slices} slices" for slices in SHAPES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
