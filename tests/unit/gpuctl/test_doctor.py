"""What the doctor concludes from facts: a table of faults, each told with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gpuctl.doctor.certificate import judged
from gpuctl.doctor.examine import examine
from gpuctl.doctor.facts import (
    Certificate,
    Clocks,
    Dra,
    Entry,
    Facts,
    Leader,
    Mutation,
    Node,
    Plugin,
    Quota,
    Right,
    Slice,
    Taint,
    Unread,
    Webhook,
)
from gpuctl.doctor.finding import Level
from gpuctl.doctor.rights import rights
from gpuctl.doctor.wire import Things, entry_of, is_gpu_plugin, is_held, node_of, quotas_of
from scheduler.issue import make_certificates

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
ROOT = Path(__file__).parents[3]
GPU = "nvidia.com/gpu"
TARGET = "gpu-scheduler-webhook.gpu-scheduler-system.svc"
ENTRY = Entry(name="env", target=TARGET, has_bundle=True, service="gpu-scheduler-webhook")
CERTIFICATE = Certificate(
    names=(TARGET,), begins=NOW - timedelta(days=1), ends=NOW + timedelta(days=89), is_trusted=True
)
WEBHOOK = Webhook(entries=(ENTRY,), ready=2, certificate=CERTIFICATE)
TAINT = Taint(GPU, "NoSchedule", "gpu-scheduler")
N1 = Node(name="n1", gpus=4, offers={GPU: 4}, capacity={GPU: 4})


def facts(**changes: Any) -> Facts:
    """A cluster in which all is well, but for the changes."""
    healthy = Facts(
        now=NOW,
        scheduler="gpu-scheduler",
        account="gpu-scheduler-system/gpu-scheduler",
        namespace="gpu-scheduler-system",
        version=(1, 37),
        clocks=Clocks(NOW, NOW),
        leader=Leader("pod-a_1", NOW - timedelta(seconds=2), 15),
        kinds=("migcuts", "migrules"),
        policies=tuple(
            f"gpu-scheduler-{name}"
            for name in ("protected-annotations", "fencing", "deletes", "cuts")
        ),
        nodes=(N1,),
        plugins=(Plugin("gpu-operator/device-plugin", ("n1",)),),
        dra=Dra(True),
        webhook=WEBHOOK,
        mutation=Mutation(True, 0.02),
        missing_rights=(),
        schedulers=("gpu-scheduler-system",),
        strangers=(),
        quotas=(Quota("team", "gpus", GPU, 3, 4),),
    )
    return msgspec.structs.replace(healthy, **changes)


def replaced(struct: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(struct, **changes)


def test_where_all_is_well_every_finding_is_ok_and_asks_for_nothing() -> None:
    found = examine(facts())

    assert {one.level for one in found} == {Level.OK}
    assert [one.advice for one in found if one.advice] == []
    assert len({one.about for one in found}) == len(found) == 16


def node(**changes: Any) -> tuple[Node, ...]:
    return (replaced(N1, **changes),)


def webhook(**changes: Any) -> Webhook:
    found: Webhook = replaced(WEBHOOK, **changes)
    return found


def certificate(**changes: Any) -> Webhook:
    return webhook(certificate=replaced(CERTIFICATE, **changes))


FAULTS = [
    pytest.param({"version": (1, 28)}, "FAIL", "kubernetes", "1.28", id="too-old"),
    pytest.param({"kinds": ("migrules",)}, "FAIL", "kinds", "migcuts", id="a-kind-is-missing"),
    pytest.param({"policies": ()}, "WARN", "policies", "fencing", id="no-policies"),
    pytest.param(
        {"clocks": Clocks(NOW, NOW + timedelta(seconds=40))},
        "WARN",
        "clock",
        "40 s behind",
        id="clock",
    ),
    pytest.param({"leader": None}, "FAIL", "leader", "no Lease", id="not-installed"),
    pytest.param(
        {"leader": Leader("", None, 15)}, "FAIL", "leader", "nobody leads", id="no-leader"
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
    pytest.param({"strangers": ("team/p",)}, "WARN", "name", "team/p", id="bound-by-a-stranger"),
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
    pytest.param({"nodes": node(offers={GPU: 3})}, "WARN", "devices", "3 of 4", id="unhealthy"),
    pytest.param(
        {"plugins": (Plugin("a/p", ("n1",)), Plugin("b/p", ("n1",)))},
        "FAIL",
        "advertisers",
        "a/p, b/p",
        id="two-plugins",
    ),
    pytest.param(
        {"dra": Dra(True, (Slice("gpu.nvidia.com", "n1"),), ("gpu.nvidia.com",))},
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
    bad = [one for one in examine(facts(**changes)) if one.level is not Level.OK]

    assert [(one.level.value, one.about) for one in bad] == [(level, about)]
    assert says in bad[0].says
    assert bad[0].advice


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"dra": Dra(False)}, id="an-old-api-server-without-dra"),
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
    ],
)
def test_what_is_meant_so_is_no_fault(changes: dict[str, Any]) -> None:
    assert {one.level for one in examine(facts(**changes))} == {Level.OK}


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


def test_the_rights_asked_for_are_those_of_the_shipped_roles() -> None:
    shipped = set()
    for each in yaml.safe_load_all((ROOT / "cluster/rbac.yaml").read_text()):
        space = each["metadata"].get("namespace", "")
        for rule in each.get("rules", ()):
            shipped |= {
                (group, kind, verb, space, name)
                for group in rule["apiGroups"]
                for kind in rule["resources"]
                for verb in rule["verbs"]
                for name in rule.get("resourceNames", [""])
            }
    asked = {
        (
            one.group,
            f"{one.resource}/{one.subresource}".rstrip("/"),
            one.verb,
            one.namespace,
            one.name,
        )
        for one in rights("gpu-scheduler-system", "gpu-scheduler")
    }

    assert asked == shipped


def test_a_certificate_is_held_against_the_registered_authority() -> None:
    mine = make_certificates([TARGET], ["127.0.0.1"], 30, now=NOW)
    other = make_certificates([TARGET], [], 30, now=NOW)

    right, wrong = judged(mine.cert_pem, mine.ca_pem), judged(mine.cert_pem, other.ca_pem)

    assert isinstance(right, Certificate)
    assert isinstance(wrong, Certificate)
    assert (right.is_trusted, wrong.is_trusted) == (True, False)
    assert set(right.names) == {TARGET, "127.0.0.1"}
    assert isinstance(judged(b"nothing", mine.ca_pem), Unread)
    garbage = judged(mine.cert_pem, b"garbage")
    assert isinstance(garbage, Certificate)
    assert not garbage.is_trusted


def test_objects_of_the_api_server_are_read_as_they_are() -> None:
    body = {
        "items": [
            {
                "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.count": "4"}},
                "spec": {"taints": [{"key": GPU, "value": "x", "effect": "NoSchedule"}]},
                "status": {
                    "allocatable": {GPU: "3", "cpu": "64"},
                    "capacity": {GPU: "4", "cpu": "64"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
            {
                "metadata": {"name": "q", "namespace": "team"},
                "status": {"hard": {f"requests.{GPU}": "2", "pods": "9"}, "used": {}},
            },
        ]
    }
    node_thing, quota_thing = msgspec.convert(body, Things).items

    assert node_of(node_thing) == replaced(
        N1, offers={GPU: 3}, taints=(Taint(GPU, "NoSchedule", "x"),)
    )
    assert quotas_of(quota_thing) == [Quota("team", "q", GPU, 0, 2)]
    by_url = {"name": "e", "clientConfig": {"url": "https://127.0.0.1:8443/mutate"}}
    assert entry_of(by_url).target == "127.0.0.1"


@pytest.mark.parametrize(
    ("name", "image", "is_one"),
    [
        pytest.param("nvidia-device-plugin-daemonset", "k8s-device-plugin:1", True, id="nvidias"),
        pytest.param("plugin", "nvidia/k8s-device-plugin:1", True, id="by-its-image"),
        pytest.param("device-plugin", "gpu-scheduler:latest", True, id="the-fake-operators"),
        pytest.param("amd-gpu-device-plugin", "rocm/k8s-device-plugin", False, id="another-vendor"),
        pytest.param("nvidia-device-plugin-mps-control-daemon", "nvidia/x", False, id="mps-daemon"),
        pytest.param("nvidia-dcgm-exporter", "nvidia/dcgm-exporter", False, id="exporter"),
    ],
)
def test_a_device_plugin_for_gpus_is_known_by_its_name_or_image(
    name: str, image: str, is_one: bool
) -> None:
    assert is_gpu_plugin(name, [image]) is is_one


@pytest.mark.parametrize(
    ("holder", "age_s", "held"),
    [
        pytest.param("a", 5, True, id="renewed"),
        pytest.param("a", 3600, False, id="left-behind"),
        pytest.param("", 5, False, id="released"),
    ],
)
def test_only_a_lease_that_is_renewed_is_another_scheduler(
    holder: str, age_s: int, held: bool
) -> None:
    renewed = (NOW - timedelta(seconds=age_s)).isoformat()
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}

    assert is_held(spec, NOW) is held
