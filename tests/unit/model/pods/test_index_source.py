"""The source of a pod's map index, as ``gpuctl why`` shows it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.pods.index_source import index_source
from tests.builders import pod

TWO_LINES = "0=n1:0\n1=n2:0"
OF_JOB = {
    "jobset.sigs.k8s.io/job-index": "1",
    "jobset.sigs.k8s.io/replicatedjob-replicas": "2",
    "batch.kubernetes.io/job-completion-index": "0",
}


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        pytest.param({"owner": "Deployment/web"}, "", id="no-map"),
        pytest.param({"owner": "StatefulSet/w", "map": "0"}, "", id="map-that-cannot-be-read"),
        pytest.param(
            {"owner": "StatefulSet/w", "map": TWO_LINES},
            "1: ordinal of a StatefulSet (name ...-N)",
            id="name",
        ),
        pytest.param(
            {"owner": "Job/j", "map": TWO_LINES, "labels": OF_JOB},
            "1: JobSet: pod of the Jobs of a replicated job, which share out all lines"
            f" ({', '.join(f'{key}={value}' for key, value in OF_JOB.items())})",
            id="labels",
        ),
        pytest.param(
            {"owner": "ReplicaSet/w", "map": TWO_LINES},
            "chosen at the Binding: the pods of a ReplicaSet have no number",
            id="interchangeable",
        ),
        pytest.param(
            {"owner": "Pod/driver", "map": TWO_LINES},
            "chosen at the Binding: the pods of a Pod have no number",
            id="pod-of-a-pod",
        ),
    ],
)
def test_the_source_of_the_map_index_is_named(fields: Any, source: str) -> None:
    assert index_source(pod("w-1", **fields)) == source
