"""The order of the files: a long one that begins last would run while the other worker is idle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

#: Files of half a minute and more on a slow machine, about the longest first.
LONGEST: Final = (
    "test_demo.py",
    "test_network_faults.py",
    "test_charts.py",
    "monitoring/test_monitoring.py",
    "test_ha.py",
    "test_mig.py",
    "test_upgrade.py",
    "dra/test_two_schedulers.py",
    "test_docs.py",
    "test_reinstall.py",
    "whatif/test_whatif.py",
    "test_hostile_objects.py",
    "test_kills.py",
    "test_map_workloads.py",
    "test_examples.py",
    "test_webhook_faults.py",
    "preemption/test_policies.py",
    "migration/test_restore.py",
    "migration/test_interrupted.py",
    "test_differential.py",
    "test_decisions_api.py",
    "test_rights.py",
    "test_kubelet_rejections.py",
    "test_lab.py",
    "dra/test_taint_rules.py",
    "test_logs.py",
    "test_node_avoidance.py",
    "test_pod_groups.py",
    "test_scale.py",
    "test_verify.py",
    "test_out_of_cluster.py",
)


def sort_items(folder: Path, items: list[pytest.Item]) -> None:
    """The longest files first, then those with the most tests; each file stays as it is."""
    first = {folder / name: rank for rank, name in enumerate(LONGEST)}
    counts = Counter(item.path for item in items)

    def key(item: pytest.Item) -> tuple[bool, int, int, Path]:
        is_ours = folder in item.path.parents
        rank = first.get(item.path, len(first))
        return (is_ours, rank, -counts[item.path], item.path) if is_ours else (False, 0, 0, Path())

    items.sort(key=key)
