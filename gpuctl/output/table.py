"""Tables of pods and nodes within 80 columns, for terminals and files.

A pending pod is a row like any other. The reasons follow below the table, each once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from gpuctl.output.columns import Columns
from gpuctl.simulate.result import PLACED, REFUSED, WAITS, Row
from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.state.cache.cluster import Cluster
from scheduler.state.dra.published_devices import published_devices

FILE_WIDTH = 2000
NAMES_SHOWN_MAX = 3
NOTHING = "-"
#: State of a pod -> the place of its reason.
ORDER: Final = {REFUSED: 0, WAITS: 1, PLACED: 2}
#: On two lines, so that the header does not widen the column.
CUDA_HEADER = "CUDA_VISIBLE\n_DEVICES"
#: Columns with sentences and lists, which wrap between words.
PROSE: Final = frozenset({"WHY", "MESSAGE", "OUTCOME", "DEVICES", "MAY NOT BE PREEMPTED"})
#: Columns without which a table can be understood; a narrow terminal drops the last first.
DETAILS: Final = (CUDA_HEADER, "OTHER LEFT", "CPU LEFT", "SCHEDULER", "FROM", "TRY", "STAGE")


class Usage(msgspec.Struct, frozen=True):
    """The usage of one resource, or of the devices of one DRA driver, on a node: amounts, or device
    numbers.
    """

    node: str
    resource: str
    held: str


def show(answer: RenderableType) -> None:
    """Print: on a terminal in its width, in a file in full width without padding."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(answer, crop=False)  # a name longer than the terminal stays whole
        return
    wide = Console(highlight=False, width=FILE_WIDTH)
    with wide.capture() as text:
        wide.print(answer)
    print("\n".join(line.rstrip() for line in text.get().splitlines()))


def usage_of(cluster: Cluster) -> list[Usage]:
    """The GPU usage of every node that advertises GPUs or has pods that hold some."""
    usage: list[Usage] = []
    for node_info in sorted(
        cluster.candidates(), key=lambda node_info: node_info.node.name if node_info.node else ""
    ):
        assert node_info.node is not None
        offered = {
            r: n for r, n in node_info.node.allocatable.items() if well_known.is_gpu_device(r)
        }
        for resource, total in sorted(offered.items()):
            held = total - node_info.free(resource)
            usage.append(
                Usage(node_info.node.name, well_known.mig_profile(resource), f"{held} of {total}")
            )
        numbers = sorted(node_info.usage.holders)
        if not offered and numbers:
            shown = ",".join(map(str, numbers))
            usage.append(
                Usage(node_info.node.name, "gpu", f"numbers {shown} (count not advertised)")
            )
        usage += _of_drivers(cluster, node_info.node)
    return usage


def _of_drivers(cluster: Cluster, node: Node) -> Iterator[Usage]:
    counts: dict[str, list[bool]] = {}
    for one in published_devices(cluster.dra, node):
        counts.setdefault(one.device.driver, []).append(one.is_held)
    for driver, held in sorted(counts.items()):
        yield Usage(node.name, driver, f"{sum(held)} of {len(held)}")


def tier(row: Row) -> str:
    """The requested tier, and the granted one if it differs."""
    requested, granted = _amounts(row.requested), _amounts(row.granted)
    if row.node is None or requested == granted:
        return requested
    return f"{requested}->{granted}"


def report(
    rows: Sequence[Row], usage: Sequence[Usage], packings: Sequence[str] = ()
) -> RenderableType:
    """All pods, the reasons, the nodes and the summary."""
    parts: list[RenderableType] = [pods(rows)]
    parts += waiting(rows)
    if usage:
        parts += ["", nodes(usage)]
    states = Counter(row.state for row in rows)
    refused = f", {states[REFUSED]} refused" if states[REFUSED] else ""
    summary = f"{states[PLACED]} of {len(rows)} pods have a node{refused}"
    parts += ["", Text(summary), *map(Text, packings)]
    return Group(*parts)


def pods(rows: Iterable[Row]) -> Columns:
    """One line per pod."""
    rows = list(rows)
    spaces = {row.namespace for row in rows}
    table = headed("POD", "NODE", "TIER", "DEVICES", CUDA_HEADER)
    for row in rows:
        name = row.pod if len(spaces) == 1 else f"{row.namespace}/{row.pod}"
        cells = (tier(row), row.devices, row.cuda_visible_devices)
        node = Text(row.node) if row.node else Text(row.state, style="bold")
        table.add_row(name, node, *(cell or NOTHING for cell in cells))
    return table


def nodes(usage: Iterable[Usage]) -> Columns:
    """One line per node and resource."""
    table = headed("NODE", "DEVICES", "HELD")
    for line in usage:
        table.add_row(line.node, line.resource, line.held)
    return table


def waiting(rows: Iterable[Row]) -> list[RenderableType]:
    """Every reason once with its pods: refused ones first, then pending ones, then notes."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.reason is not None:
            reasons.setdefault((row.state, row.reason), []).append(row.pod)
    parts: list[RenderableType] = []
    for (state, reason), names in sorted(reasons.items(), key=lambda item: ORDER[item[0][0]]):
        is_placed = state == PLACED
        head = f"{'note' if is_placed else state}: {_listed(names)}"
        parts += ["", Text(head, style="" if is_placed else "bold")]
        parts.append(Padding(Text(reason), (0, 0, 0, 2)))
    return parts


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    more = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _amounts(amounts: Mapping[str, int]) -> str:
    return " ".join(
        well_known.mig_profile(resource) + (f" x {count}" if count != 1 else "")
        for resource, count in sorted(amounts.items())
    )


def headed(*headers: str) -> Columns:
    """An empty table whose prose wraps, and whose details are dropped in a narrow terminal."""
    details = [header for header in DETAILS if header in headers]
    return Columns(*headers, prose=PROSE.intersection(headers), optional=details)
