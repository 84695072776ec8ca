"""The table: every pod on a line that fits 80 columns, and every reason once."""

from __future__ import annotations

import yaml

from tests.unit.gpuctl.cli import MIG_2G, SCENARIOS, gpuctl, node, pod, spec


def test_seed_tables_fit_80_columns() -> None:
    result = gpuctl("simulate", str(SCENARIOS / "map.yaml"))

    assert max(map(len, result.out.splitlines())) <= 80


def test_the_map_example_is_shown_as_the_readme_shows_it() -> None:
    result = gpuctl("simulate", str(SCENARIOS / "map.yaml"))

    assert result.out.splitlines()[:4] == [
        "                                       CUDA_VISIBLE",
        "POD          NODE     TIER  DEVICES    _DEVICES",
        "gpu-check-0  worker1  -     gpu:0,1    0,1",
        "gpu-check-1  worker2  -     gpu:2      2",
    ]


def test_every_reason_stands_once_and_says_how_many_it_is_about() -> None:
    result = gpuctl("simulate", str(SCENARIOS / "mig.yaml"))

    lines = result.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("waits: "))
    assert lines[at].count("more-2g-") == 3
    assert lines[at + 1] == (
        "  0/2 nodes are available: 2 Insufficient nvidia.com/mig-2g.20gb"
        " (need 1; best node has 0 free)."
    )
    assert sum("fell back to 1g.10gb" in line for line in lines) == 1
    assert any(line.endswith("and 29 more") for line in lines)
    assert lines[-1] == "44 of 47 pods have a node"


def test_the_tier_says_what_was_asked_and_what_it_became() -> None:
    result = gpuctl("simulate", str(SCENARIOS / "mig.yaml"))

    tiers = [line.split()[2] for line in result.out.splitlines() if line.startswith("more-2g-")]
    assert tiers.count("2g.20gb->1g.10gb") == 32
    assert tiers.count("2g.20gb") == 10


def test_namespaces_are_named_where_there_are_several() -> None:
    world = (
        node("n1", mig_2g=2),
        pod("a", spec(MIG_2G, 1), namespace="one"),
        pod("a", spec(MIG_2G, 1), namespace="two"),
    )

    result = gpuctl("simulate", "-", stdin="\n---\n".join(map(yaml.safe_dump, world)))

    assert [line.split()[0] for line in result.out.splitlines()[2:4]] == ["one/a", "two/a"]


def test_an_input_without_pods_says_so() -> None:
    result = gpuctl("simulate", "-", stdin=yaml.safe_dump(node("n1")))

    assert result == (0, "", "gpuctl simulate: the input contains no pod to place\n")
