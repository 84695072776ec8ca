"""``dra.migClasses``: one DeviceClass for each MIG profile."""

from __future__ import annotations

import json

import msgspec
import pytest

from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from scheduler.watch.decode.dra.classes import CLASSES
from tests.builders import node
from tests.charts.rendering import SCHEDULER, Json, objects
from tests.dra import device_json, resource_slice
from tools.charts.helm import HelmFailed, template

KIND = "DeviceClass"
#: The kinds and profiles of devices as NVIDIA's driver publishes them.
PUBLISHED = [
    ("gpu-0", {"type": "gpu"}),
    ("gpu-0-mig-1g10gb-19-0", {"type": "mig", "profile": "1g.10gb"}),
    ("gpu-0-mig-1g10gb-19-1", {"type": "mig", "profile": "1g.10gb"}),
    ("gpu-0-mig-1g10gb-me-20-0", {"type": "mig", "profile": "1g.10gb+me"}),
    ("gpu-1-vfio", {"type": "vfio"}),
]


def classes(*profiles: str) -> list[Json]:
    """The classes of a release with these profiles."""
    words = ("--set-json", f"dra.migClasses={json.dumps(profiles)}") if profiles else ()
    return [one for one in objects(SCHEDULER, *words) if one["kind"] == KIND]


def test_no_class_by_default() -> None:
    assert classes() == []


def test_a_class_offers_the_resource_of_its_profile() -> None:
    small, media = classes("1g.10gb", "1g.10gb+me")

    assert small["metadata"]["name"] == "mig-1g.10gb"
    assert small["spec"]["extendedResourceName"] == "nvidia.com/mig-1g.10gb"
    assert media["metadata"]["name"] == "mig-1g.10gb.me"
    assert media["spec"]["extendedResourceName"] == "nvidia.com/mig-1g.10gb.me"


@pytest.mark.parametrize(("profile", "count"), [("1g.10gb", 2), ("1g.10gb+me", 1), ("3g.40gb", 0)])
def test_a_class_selects_the_partitions_of_its_profile(profile: str, count: int) -> None:
    devices = [
        device_json(name, attributes={key: {"string": text} for key, text in facts.items()})
        for name, facts in PUBLISHED
    ]
    [one] = classes(profile)
    state = Cluster()
    state.upsert_node(node())
    fold(state, ev.DraUpdated(resource_slice("n1", *devices, driver="gpu.nvidia.com")))
    event = CLASSES.event(msgspec.json.encode(one), False)
    assert isinstance(event, ev.DraUpdated)
    fold(state, event)

    node_info = state.at("n1")
    assert node_info is not None
    assert node_info.most(one["spec"]["extendedResourceName"]) == count


@pytest.mark.parametrize("profile", ["1g.10gb'", "gpu", "1g.10gb || true", "", "0g.1gb"])
def test_what_is_no_profile_is_rejected(profile: str) -> None:
    with pytest.raises(HelmFailed):
        template(
            SCHEDULER,
            release="r",
            namespace="r",
            words=("--set-json", f"dra.migClasses={json.dumps([profile])}"),
        )
