"""Memory, start and decisions of one scheduler process in large clusters.

Without --live: the product's process lists synthetic clusters of several sizes from a local server,
through its own client and decoder. Measured: resident memory after the start and at the peak, the
seconds from the first LIST to the first Binding, and the median time of a decision.

With --live: nodes and running pods on a real API server, on which this scheduler and the stock
kube-scheduler start in alternating rounds. Measured: peak and resident memory, and the seconds from
the start of the process to its first Binding. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
from typing import Any

from bench.cluster_fixture import ordinary, pod_body
from bench.control_plane import without_kubelets
from bench.observer import dumps
from bench.scale import big_cluster
from bench.scale.list_server import ListServer
from bench.scale.live import Size, start_figures
from bench.schedulers import apply_manifests

PENDING = 200
SIZES = "1000x5000,5000x20000,5000x50000,10000x50000,15000x100000"
LIVE = "5000x20000"


def parse_sizes(words: str) -> list[Size]:
    """``NODESxPODS`` separated by commas. ValueError names the invalid one.

    >>> parse_sizes("1000x5000,5000x20000")
    [(1000, 5000), (5000, 20000)]
    """
    sizes = []
    for word in words.split(","):
        match = re.fullmatch(r"(\d+)x(\d+)", word.strip())
        if match is None or not int(match[1]):
            raise ValueError(f"{word!r} is no size such as 5000x20000 (nodes x running pods)")
        sizes.append((int(match[1]), int(match[2])))
    return sizes


def fitted(rows: list[dict[str, float]], key: str) -> dict[str, float]:
    """``key`` as base + per node + per pod, by least squares; KiB per object, MiB for the base."""
    points = [(1.0, row["nodes"] / 1024, row["pods"] / 1024, row[key]) for row in rows]
    matrix = [[sum(p[i] * p[j] for p in points) for j in range(3)] for i in range(3)]
    right = [sum(p[i] * p[3] for p in points) for i in range(3)]
    base, per_node, per_pod = solve(matrix, right)
    return {"base_mib": base, "node_kib": per_node, "pod_kib": per_pod}


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve linear equations by elimination; ValueError if they have no single solution."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda at: abs(rows[at][column]))
        if abs(rows[pivot][column]) < 1e-9:
            raise ValueError("at least three sizes with different ratios of pods to nodes")
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for at in range(size):
            if at != column:
                factor = rows[at][column] / rows[column][column]
                rows[at] = [a - factor * b for a, b in zip(rows[at], rows[column], strict=True)]
    return [rows[at][size] / rows[at][at] for at in range(size)]


async def synthetic(size: Size, decisions: int) -> dict[str, float]:
    """One size, in a process of its own."""
    nodes, pods = size
    rng = random.Random(1)
    pending = [pod_body(number, ordinary(rng)) for number in range(PENDING)]
    server = ListServer(
        {
            "/api/v1/nodes": lambda: big_cluster.node_parts(nodes),
            "/api/v1/pods": lambda: big_cluster.pod_parts(pods, nodes, pending),
        }
    )
    async with server.serving() as kubeconfig:
        words = ["-m", "bench.scale.process", str(kubeconfig), str(decisions)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the process at {nodes} nodes and {pods} pods failed")
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    expected = {"nodes": nodes, "pods": pods + PENDING}
    if (seen := {key: figures[key] for key in expected}) != expected:
        raise RuntimeError(f"the process has {seen} instead of {expected}")
    return {
        **figures,
        "pods": pods,
        "list_mib": server.bytes_sent / 2**20,
        "load": os.getloadavg()[0],
    }


async def curve(sizes: list[Size], decisions: int) -> dict[str, Any]:
    """All sizes, and the memory per object."""
    rows = []
    for size in sizes:
        row = {key: round(value, 2) for key, value in (await synthetic(size, decisions)).items()}
        rows.append(row)
        print(dumps(row), flush=True)
    report: dict[str, Any] = {"sizes": rows}
    if len(rows) >= 3:
        for key in ("rss_mib", "peak_mib"):
            line = fitted(rows, key)
            report[key] = {name: round(value, 2) for name, value in line.items()}
    return report


def _sizes(words: str) -> list[Size]:
    try:
        return parse_sizes(words)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--live", action="store_true", help="on a real API server")
    parser.add_argument(
        "--sizes", type=_sizes, help=f"NODESxPODS,...; {SIZES}, or {LIVE} with --live"
    )
    parser.add_argument("--decisions", type=int, default=2000, help="timed decisions per size")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each scheduler (--live)")
    options = parser.parse_args(words)
    options.sizes = options.sizes or parse_sizes(LIVE if options.live else SIZES)
    return options


def live(options: argparse.Namespace) -> dict[str, Any]:
    """Every size on a control plane of its own."""
    report = {}
    for size in options.sizes:
        with without_kubelets() as (plane, directory):
            apply_manifests(plane)
            report["x".join(map(str, size))] = start_figures(plane, directory, size, options.rounds)
    return report


def main() -> None:
    """Print a line per size or round, then the JSON."""
    options = parse()
    result = live(options) if options.live else asyncio.run(curve(options.sizes, options.decisions))
    print(dumps(result), flush=True)


if __name__ == "__main__":
    main()
