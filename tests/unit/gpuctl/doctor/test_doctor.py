"""The doctor's findings from facts: a table of faults, each with the next step."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuctl.doctor.checks import examine
from gpuctl.doctor.facts import (
    Clocks,
    Dra,
    Facts,
    Guard,
    Leader,
    Mutation,
    Neighbour,
    Plugin,
    PodsSeen,
    Quota,
    Right,
    Slice,
    Taint,
    Unread,
    Waiting,
)
from gpuctl.doctor.finding import Level
from tests.unit.gpuctl.doctor.wellcluster import (
    BY_DRA,
    DRIVEN,
    ENTRY,
    GPU,
    N1,
    NOW,
    POLICIES,
    RESERVED,
    TAINT,
    TARGET,
    certificate,
    facts,
    node,
    replaced,
    webhook,
)

ROOT = Path(__file__).parents[4]
#: Of a share; no device by itself.
MEMORY = "nvidia.com/gpumem"


def test_where_all_is_well_every_finding_is_ok_and_asks_for_nothing() -> None:
    found = examine(facts())

    assert {one.level for one in found} == {Level.OK}
    assert [one.advice for one in found if one.advice] == []
    assert len({one.about for one in found}) == len(found) == 25


def test_a_lease_that_is_read_late_is_not_ahead() -> None:
    """On a busy machine the holder renews it between the first request and this one."""
    late = Leader("a", NOW + timedelta(seconds=9), 15, timedelta(seconds=10))

    assert [one for one in examine(facts(leader=late)) if one.level != Level.OK] == []


FAULTS = [
    pytest.param({"version": (1, 33)}, "FAIL", "kubernetes", "1.33", id="too-old"),
    pytest.param(
        {"kinds": ("podmigrations",)}, "FAIL", "kinds", "migpartitions", id="a-kind-is-missing"
    ),
    pytest.param({"policies": ()}, "WARN", "policies", "fencing", id="no-policies"),
    *(
        pytest.param(
            {"policies": tuple(Guard(f"gpu-scheduler-{one}", one != name) for one in POLICIES)},
            "WARN",
            "policies",
            f"no binding of the admission policy {name} denies",
            id=f"unbound-{name}",
        )
        for name in POLICIES
    ),
    pytest.param(
        {"refuses_forgery": False}, "WARN", "forgery", "forged devices was accepted", id="forgery"
    ),
    pytest.param(
        {"missing_for_moves": (Right(verb="list", resource="poddisruptionbudgets"),)},
        "WARN",
        "moves",
        "list poddisruptionbudgets",
        id="moves-in-part",
    ),
    pytest.param(
        {"clocks": Clocks(NOW, NOW + timedelta(seconds=40))},
        "WARN",
        "clock",
        "40 s behind",
        id="clock",
    ),
    pytest.param({"leader": None}, "FAIL", "leader", "no Lease", id="not-installed"),
    pytest.param(
        {"leader": Leader("", None, 15)}, "FAIL", "leader", "no replica leads", id="no-leader"
    ),
    pytest.param(
        {"leader": Leader("a", NOW - timedelta(seconds=60), 15)},
        "FAIL",
        "leader",
        "60 s",
        id="stale",
    ),
    pytest.param(
        {"leader": Leader("a", NOW + timedelta(seconds=9), 15)}, "WARN", "leader", "9 s", id="ahead"
    ),
    pytest.param(
        {"missing_rights": (Right(verb="create", resource="pods", subresource="binding"),)},
        "FAIL",
        "roles",
        "create pods/binding",
        id="a-right-is-missing",
    ),
    pytest.param(
        {"schedulers": ("gpu-scheduler-system", "old")}, "FAIL", "name", "old", id="two-schedulers"
    ),
    pytest.param(
        {"pods": PodsSeen(strangers=("team/p",))},
        "WARN",
        "name",
        "team/p",
        id="bound-by-a-stranger",
    ),
    pytest.param(
        {"pods": PodsSeen(neighbours=(Neighbour("default-scheduler", 3, ("n1", "n2")),))},
        "WARN",
        "neighbours",
        "default-scheduler placed 3 on n1, n2",
        id="neighbours",
    ),
    pytest.param(
        {"pods": PodsSeen(waiting=Waiting(7, 1100, (("INSUFFICIENT", 5), ("TAINT", 2))))},
        "WARN",
        "pods",
        "7 wait, oldest 18m, 5 INSUFFICIENT, 2 TAINT",
        id="pods-that-wait-for-long",
    ),
    pytest.param(
        {"nodes": node(failed=(1, 3))}, "WARN", "gpus", "failed: n1 (GPU 1, 3)", id="failed-gpus"
    ),
    pytest.param(
        {"nodes": node(flaw="'abc' is no list of indexes")},
        "WARN",
        "gpus",
        "unusable-devices on n1: 'abc' is no list of indexes",
        id="unreadable-annotation",
    ),
    pytest.param(
        {"quotas": (Quota("team", "gpus", GPU, 4, 4),)}, "WARN", "quotas", "4 of 4", id="quota"
    ),
    pytest.param({"webhook": None}, "WARN", "webhook", "not registered", id="no-webhook"),
    pytest.param(
        {"webhook": webhook(entries=(replaced(ENTRY, has_bundle=False),))},
        "FAIL",
        "webhook",
        "no caBundle",
        id="no-bundle",
    ),
    pytest.param({"webhook": webhook(ready=0)}, "FAIL", "webhook", "no ready", id="no-endpoint"),
    pytest.param(
        {"webhook": webhook(entries=(replaced(ENTRY, failure_policy="Fail"),))},
        "WARN",
        "webhook",
        "Fail",
        id="failure-policy",
    ),
    pytest.param(
        {"webhook": certificate(is_trusted=False)}, "FAIL", "certificate", "caBundle", id="wrong-ca"
    ),
    pytest.param(
        {"webhook": certificate(ends=NOW)}, "FAIL", "certificate", "expired", id="expired"
    ),
    pytest.param(
        {"webhook": certificate(ends=NOW + timedelta(days=3))},
        "WARN",
        "certificate",
        "3 days",
        id="expires-soon",
    ),
    pytest.param(
        {"webhook": certificate(begins=NOW + timedelta(hours=1))},
        "FAIL",
        "certificate",
        "valid from",
        id="not-yet-valid",
    ),
    pytest.param(
        {"webhook": certificate(names=("other.svc",))},
        "FAIL",
        "certificate",
        TARGET,
        id="wrong-name",
    ),
    pytest.param(
        {"mutation": Mutation(False, 2.0)}, "FAIL", "mutation", "unchanged", id="unmutated"
    ),
    pytest.param({"mutation": Mutation(True, 1.8)}, "WARN", "mutation", "1.80 s", id="slow"),
    pytest.param(
        {"mutation": Mutation(False, 0.1, error="denied by x")},
        "FAIL",
        "mutation",
        "by x",
        id="denied",
    ),
    pytest.param({"nodes": ()}, "WARN", "nodes", "no node offers", id="no-gpus"),
    pytest.param({"nodes": node(is_cordoned=True)}, "FAIL", "nodes", "takes pods", id="cordoned"),
    pytest.param(
        {"nodes": (N1, replaced(N1, name="n2", is_ready=False))},
        "WARN",
        "nodes",
        "n2",
        id="not-ready",
    ),
    pytest.param({"nodes": node(taints=(TAINT,))}, "WARN", "taints", "1 of 1", id="tainted"),
    pytest.param(
        {"nodes": node(offers={}, capacity={})},
        "FAIL",
        "devices",
        "none advertised",
        id="no-plugin",
    ),
    pytest.param({"nodes": node(offers={GPU: 3})}, "WARN", "gpus", "3 of 4", id="unhealthy"),
    pytest.param(
        {"plugins": (Plugin("a/p", ("n1",)), Plugin("b/p", ("n1",)))},
        "FAIL",
        "advertisers",
        "a/p, b/p",
        id="two-plugins",
    ),
    pytest.param(
        {"dra": DRIVEN},
        "FAIL",
        "advertisers",
        "n1",
        id="plugin-and-dra",
    ),
    pytest.param(
        {"dra": Dra(True, (Slice("other.example", "n9"),))},
        "WARN",
        "dra",
        "no DeviceClass",
        id="class",
    ),
]


@pytest.mark.parametrize(("changes", "level", "about", "says"), FAULTS)
def test_a_fault_is_found_and_comes_with_advice(
    changes: dict[str, Any], level: str, about: str, says: str
) -> None:
    """And nothing else is: each fault has one cause."""
    found = examine(facts(**changes))
    bad = [one for one in found if one.level is not Level.OK]

    assert [(one.level.value, one.about) for one in bad] == [(level, about)]
    assert [one.level for one in found if one.about == about] == [bad[0].level], "and no OK beside"
    assert says in bad[0].says
    assert bad[0].advice


def test_no_device_plugin_is_recommended_where_dra_serves_the_gpus() -> None:
    changes = {"nodes": node(gpus=0, offers={}, capacity={}), "dra": DRIVEN, "plugins": ()}
    advice = [one.advice for one in examine(facts(**changes))]

    assert not any("device plugin" in one for one in advice)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"dra": Dra(False)}, id="an-old-api-server-without-dra"),
        pytest.param(
            {"nodes": node(offers={}, capacity={}, **RESERVED), **BY_DRA},
            id="dra-alone",
        ),
        pytest.param(
            {"nodes": node(gpus=0, offers={}, capacity={}, **RESERVED), **BY_DRA},
            id="dra-alone-without-feature-discovery",
        ),
        pytest.param({"nodes": node(), "plugins": ()}, id="gpus-that-no-daemonset-brings"),
        pytest.param(
            {
                "nodes": node(taints=(TAINT,)),
                "mutation": Mutation(True, 0.1, ("nvidia.com/gpu=gpu-scheduler:NoSchedule",)),
            },
            id="a-taint-that-every-pod-is-made-to-tolerate",
        ),
        pytest.param(
            {"plugins": (Plugin("a/p", ("n1",)), Plugin("b/p", ("n2",)))}, id="plugins-apart"
        ),
        pytest.param({"version": (1, 34)}, id="the-oldest-that-will-do"),
        pytest.param(
            {"nodes": node(taints=(Taint("x", "PreferNoSchedule"),))}, id="a-taint-that-is-a-wish"
        ),
        pytest.param(
            {"nodes": node(taints=(Taint("node.kubernetes.io/disk-pressure", "NoSchedule"),))},
            id="a-taint-that-comes-and-goes",
        ),
        pytest.param(
            {
                "nodes": node(offers={GPU: 0, MEMORY: 9}, capacity={GPU: 0, MEMORY: 9}, **RESERVED),
                **BY_DRA,
                "plugins": facts().plugins,
            },
            id="dra-where-the-plugin-offers-no-gpu",
        ),
    ],
)
def test_what_is_meant_so_is_no_fault(changes: dict[str, Any]) -> None:
    assert {one.level for one in examine(facts(**changes))} == {Level.OK}


@pytest.mark.parametrize(
    ("changes", "about", "says"),
    [
        pytest.param(
            {"nodes": (N1, replaced(N1, name="n2", offers={GPU: 4, "nvidia.com/mig-1g.10gb": 7}))},
            "devices",
            "advertised: 8 nvidia.com/gpu, 7 nvidia.com/mig-1g.10gb",
            id="devices-of-all-nodes-together",
        ),
        pytest.param({}, "advertisers", "each GPU: gpu-operator/device-plugin", id="the-plugin"),
        pytest.param({"plugins": ()}, "advertisers", "no DaemonSet", id="no-plugin"),
        pytest.param({"dra": Dra(False)}, "dra", "is not served", id="no-dra"),
        pytest.param({}, "dra", "drivers: none; classes: none", id="dra-without-drivers"),
        pytest.param(
            {"dra": Dra(True, (Slice("d.example", "n9"),), ("c.example",))},
            "dra",
            "drivers: d.example; classes: c.example",
            id="dra",
        ),
    ],
)
def test_where_all_is_well_it_says_what_there_is(
    changes: dict[str, Any], about: str, says: str
) -> None:
    (found,) = (one for one in examine(facts(**changes)) if one.about == about)

    assert found.level is Level.OK
    assert says in found.says


def test_unhealthy_and_missing_devices_get_separate_causes() -> None:
    nodes = (replaced(N1, offers={GPU: 3}), replaced(N1, name="n2", offers={}, capacity={}))
    found = [one for one in examine(facts(nodes=nodes)) if one.level is not Level.OK]

    assert [(one.about, one.level) for one in found] == [
        ("devices", Level.FAIL),
        ("gpus", Level.WARN),
    ]


def unreadable() -> Iterator[str]:
    for field in msgspec.structs.fields(Facts):
        if "Unread" in str(field.type):
            yield field.name


@pytest.mark.parametrize("field", list(unreadable()))
def test_a_fact_that_may_not_be_read_is_a_warning_with_the_reason(field: str) -> None:
    bad = [
        one for one in examine(facts(**{field: Unread("forbidden")})) if one.level is not Level.OK
    ]

    assert [one.level for one in bad] == [Level.WARN]
    assert bad[0].says == "not known: forbidden"
