"""`gpuctl simulate` on the seeds' own examples, from the files that the demo applies."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections import Counter

import pytest

from tests.unit.gpuctl.cli import MIG_1G, MIG_2G, ROOT, SCENARIOS, gpuctl, rows

KEYS = [
    "namespace",
    "pod",
    "node",
    "devices",
    "cudaVisibleDevices",
    "requested",
    "granted",
    "reason",
    "state",
]
#: Slow imports that gpuctl simulate does not need.
HEAVY = ("kubernetes", "aiohttp", "prometheus_client", "structlog", "cryptography")


@pytest.mark.contract("S2-1", "S2-3", "S2-6", "S2-19")
def test_the_five_mapped_pods_stand_where_their_map_says() -> None:
    result = gpuctl("simulate", str(SCENARIOS / "map.yaml"), "-o", "json")

    found = json.loads(result.out)
    assert [list(row) for row in found] == [KEYS] * 5
    assert [(row["pod"], row["node"], row["cudaVisibleDevices"]) for row in found] == [
        ("gpu-check-0", "worker1", "0,1"),
        ("gpu-check-1", "worker2", "2"),
        ("gpu-check-2", "worker3", "0,1,2"),
        ("gpu-check-3", "worker4", "3"),
        ("gpu-check-4", "worker4", "3"),
    ]


@pytest.mark.contract("S0-3", "S0-15", "S0-20", "S0-24", "S0-B2", "S0-B5")
def test_twelve_pods_keep_their_slice_32_fall_back_and_the_rest_waits() -> None:
    found = rows((SCENARIOS / "mig.yaml").read_text())

    assert all(row["requested"] == {MIG_2G: 1} for row in found)
    assert [row["granted"] for row in found] == [{MIG_2G: 1}] * 12 + [{MIG_1G: 1}] * 32 + [{}] * 3
    assert Counter((row["node"], row["devices"]) for row in found) == {
        ("medium", "2g.20gb x 1"): 12,
        ("medium", "1g.10gb x 1"): 4,
        ("small", "1g.10gb x 1"): 28,
        (None, None): 3,
    }
    assert {row["reason"] for row in found} == {
        None,
        "2g.20gb not available, fell back to 1g.10gb",
        "0/2 nodes are available: 2 Insufficient nvidia.com/mig-2g.20gb"
        " (need 1; best node has 0 free).",
    }


@pytest.mark.parametrize("name", ["map.yaml", "mig.yaml"])
def test_a_seed_example_takes_less_than_two_seconds_of_a_processor(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "gpuctl", "simulate", str(SCENARIOS / name)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)

    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2.0


def test_nothing_is_imported_that_a_file_does_not_need() -> None:
    code = (
        "import sys, gpuctl.commands.simulate; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=dict(os.environ),
    )

    assert done.stdout.strip() == "[]"


def test_the_same_file_gives_the_same_bytes() -> None:
    first, second = (
        gpuctl("simulate", str(SCENARIOS / "mig.yaml"), "-o", "json") for _ in range(2)
    )

    assert first.out == second.out
