"""The level of the topology in the annotations of a pod."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.topology.request import TopologyRequest
from tests.builders import pod

OURS = well_known.TOPOLOGY_REQUIRED, well_known.TOPOLOGY_PREFERRED
KUEUES = well_known.KUEUE_TOPOLOGY_REQUIRED, well_known.KUEUE_TOPOLOGY_PREFERRED


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({OURS[0]: " "}, None, id="empty"),
        pytest.param({OURS[0]: "x" * 318}, None, id="no key is so long"),
        pytest.param({OURS[0]: "rack"}, TopologyRequest("rack"), id="required"),
        pytest.param({OURS[1]: " rack "}, TopologyRequest("", "rack"), id="preferred"),
        pytest.param({KUEUES[0]: "rack"}, TopologyRequest("rack"), id="of Kueue"),
        pytest.param(
            {OURS[1]: "rack", KUEUES[1]: "block", KUEUES[0]: "zone"},
            TopologyRequest("zone", "rack"),
            id="ours first",
        ),
    ],
)
def test_the_first_annotation_with_a_key_counts(
    annotations: dict[str, str], expected: TopologyRequest | None
) -> None:
    assert pod(annotations=annotations).topology == expected
