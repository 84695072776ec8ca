"""Fake GPUs by DRA on a thousand KWOK nodes: the time until all are published, and its cost.

    python -m bench.fakegpu.dra [--nodes 1000] [--parts]

On the real API server: from the creation of the nodes, with eight A100 each, until all of their
ResourceSlices exist; with ``--parts`` each GPU is offered in parts too. The last line is JSON.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench.fakegpu.__main__ import Bench, pools, processor_s
from bench.observer import dumps
from bench.rounds import usage
from tools.controlplane import ControlPlane
from tools.controlplane.client import Client
from tools.controlplane.process import Running
from tools.fake_operator import FakeOperator

#: Slices of a node: one with all GPUs; or one of counters, and four of 208 devices.
WHOLE_SLICES = 1
PARTS_SLICES = 5
POLL_S = 1.0


def slices(client: Client) -> int:
    """The number of slices, without reading them: a full list would cost more than the writes."""
    seen = client.get("/apis/resource.k8s.io/v1/resourceslices?limit=1")
    return len(seen["items"]) + int(seen["metadata"].get("remainingItemCount", 0))


def published(bench: Bench, wanted: int, timeout_s: float = 600.0) -> float:
    """Seconds from the creation of all nodes until this many slices exist."""
    started = time.monotonic()
    bench.create_nodes()
    while (seen := slices(bench.client)) < wanted:
        if time.monotonic() - started > timeout_s:
            raise TimeoutError(f"{seen} of {wanted} slices after {timeout_s:g} s")
        time.sleep(POLL_S)
    return time.monotonic() - started


def main() -> None:
    """Run the benchmark, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m bench.fakegpu.dra")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--parts", action="store_true")
    options = parser.parse_args()
    wanted = options.nodes * (PARTS_SLICES if options.parts else WHOLE_SLICES)
    config = {"dra": {"kwok": "instead", "partitionable": options.parts}}
    with tempfile.TemporaryDirectory() as folder, ControlPlane.start(Path(folder)) as plane:
        operator = FakeOperator(plane, Path(folder) / "operator", config=config)
        operator.install("fakegpu-dra-rbac.yaml")
        operator.configure(pools())
        with operator:
            before = processor_s(plane, operator)
            seconds = published(Bench(plane, operator, options.nodes), wanted)
            after = processor_s(plane, operator)
            used = usage(Running("fakegpu", operator.pid, "fakegpu"))
    cpu_s = {name: after[name] - before[name] for name in before}
    print(
        dumps(
            {
                "nodes": options.nodes,
                "slices": wanted,
                "published_s": seconds,
                "cpu_s": cpu_s,
                "all_cpu_s": sum(cpu_s.values()),
                "peak_mib": used["rss_mib"],
            }
        )
    )


if __name__ == "__main__":
    main()
