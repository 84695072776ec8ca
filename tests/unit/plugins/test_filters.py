"""Each filter alone: when it rejects, with which message, and whether removing pods could help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import first_rejection
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason, ReasonCode
from scheduler.plugins import (
    REASON_CODES,
    default_pipeline,
    node_affinity,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    taint_toleration,
)
from scheduler.plugins.gpu import devices
from scheduler.state.node_info import NodeInfo
from tests.builders import ALLOW_ALL_MAPS, GPU, MIG_2G, cluster, container, downward, node, pod

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "fiterror.json").read_text())
TEXTS = GOLDEN["texts"][0]


def node_info(at: Node | None = None, *running: Pod) -> NodeInfo:
    """The NodeInfo of one node with pods that run on it."""
    state = cluster(at or node(), *running)
    return state.nodes.node_info[(at or node()).name]


# --- cordon, taints ------------------------------------------------------------------

CORDON = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("at", "tolerations", "passes"),
    [
        pytest.param(node(), [], True, id="open"),
        pytest.param(node(cordoned=True), [], False, id="cordoned"),
        pytest.param(node(cordoned=True), [{"key": CORDON, "operator": "Exists"}], True, id="own"),
        pytest.param(node(cordoned=True), [{"operator": "Exists"}], True, id="tolerates-all"),
        pytest.param(
            node(cordoned=True),
            [{"key": CORDON, "operator": "Exists", "effect": "NoExecute"}],
            False,
            id="another-effect",
        ),
    ],
)
def test_a_cordoned_node_takes_only_pods_that_tolerate_it(
    at: Node, tolerations: list[Any], passes: bool
) -> None:
    """Semantics case 28."""
    found = node_unschedulable.check(pod(tolerations=tolerations), node_info(at))

    assert found == (() if passes else (node_unschedulable.REASON,))
    assert node_unschedulable.REASON.text == TEXTS["nodeUnschedulable"]
    assert not node_unschedulable.REASON.resolvable


@pytest.mark.parametrize(
    ("marks", "tolerations", "hit"),
    [
        pytest.param([], [], None, id="none"),
        pytest.param(["gpu=yes:NoSchedule"], [], "gpu: yes", id="no-schedule"),
        pytest.param(["gpu:NoExecute"], [], "gpu: ", id="case-29-no-execute"),
        pytest.param(["gpu:PreferNoSchedule"], [], None, id="a-preference-only-scores"),
        pytest.param(
            ["gpu:NoSchedule"], [{"key": "gpu", "operator": "Exists"}], None, id="covered"
        ),
        pytest.param(["gpu=a:NoSchedule"], [{"key": "gpu"}], "gpu: a", id="case-30-empty-value"),
        pytest.param(["gpu=a:NoSchedule"], [{"operator": "Exists"}], None, id="case-30-all"),
        pytest.param(
            ["a:NoSchedule", "b=c:NoExecute"],
            [{"key": "a", "operator": "Exists"}],
            "b: c",
            id="the-first-that-is-not-covered-is-named",
        ),
    ],
)
def test_taints_keep_pods_away(marks: list[str], tolerations: list[Any], hit: str | None) -> None:
    found = taint_toleration.check(pod(tolerations=tolerations), node_info(node(taints=marks)))

    expected = f"node(s) had untolerated taint {{{hit}}}"
    assert found == (
        ()
        if hit is None
        else (Reason(code=REASON_CODES["TAINT"], text=expected, resolvable=False),)
    )


@pytest.mark.parametrize(
    ("operator", "value", "compares", "passes"),
    [
        pytest.param("Lt", "10", True, True, id="smaller"),
        pytest.param("Lt", "5", True, False, id="equal-is-not-smaller"),
        pytest.param("Gt", "4", True, True, id="greater"),
        pytest.param("Gt", "04", True, False, id="a-leading-zero-is-no-number"),
        pytest.param("Lt", "10", False, False, id="off"),
    ],
)
def test_tolerations_compare_numbers_where_configured(
    operator: str, value: str, compares: bool, passes: bool
) -> None:
    pipeline = default_pipeline(Settings(compare_numbers=compares))
    toleration = {"key": "load", "operator": operator, "value": value}
    tainted = cluster(node(taints=["load=5:NoSchedule"]))

    decision = schedule_one(tainted, pod(tolerations=[toleration]), pipeline)

    assert isinstance(decision, Placement) is passes


# --- selector and affinity -----------------------------------------------------------


def required(*terms: Any) -> dict[str, Any]:
    kind = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {kind: {"nodeSelectorTerms": list(terms)}}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def term(*expressions: Any, fields: list[Any] | None = None) -> dict[str, Any]:
    return {"matchExpressions": list(expressions), "matchFields": fields or []}


ZONE_A, ZONE_B = expression("zone", "In", "a"), expression("zone", "In", "b")
SELECTED: list[Any] = [
    pytest.param({}, {}, True, id="asks-nothing"),
    pytest.param({"zone": "a"}, {}, True, id="selector-matches"),
    pytest.param({"zone": "b"}, {}, False, id="selector-differs"),
    pytest.param({"zone": "a", "disk": "ssd"}, {}, False, id="every-pair-counts"),
    pytest.param({}, required(term(ZONE_B), term(ZONE_A)), True, id="case-31-terms-are-or"),
    pytest.param({}, required(term(ZONE_A, ZONE_B)), False, id="expressions-are-and"),
    pytest.param({}, required({}), False, id="case-31-an-empty-term-matches-nothing"),
    pytest.param({}, required(), False, id="no-terms-match-nothing"),
    pytest.param({"zone": "b"}, required(term(ZONE_A)), False, id="selector-and-affinity"),
    pytest.param({}, required(term(expression("level", "Gt", "4"))), True, id="five-is-above-four"),
    pytest.param({}, required(term(expression("level", "Gt", "5"))), False, id="case-32-not-above"),
    pytest.param({}, required(term(expression("zone", "Gt", "1"))), False, id="case-32-no-number"),
    pytest.param(
        {},
        required(term(fields=[expression("metadata.name", "In", "n1")])),
        True,
        id="a-daemonsets-way-to-name-its-node",
    ),
    pytest.param(
        {}, required(term(fields=[expression("metadata.name", "In", "n2")])), False, id="another"
    ),
    pytest.param({"kubernetes.io/hostname": "n1"}, {}, False, id="the-label-says-otherwise"),
]


@pytest.mark.contract("S0-26", "S4-9")
@pytest.mark.parametrize(("selector", "spec", "passes"), SELECTED)
def test_selector_and_required_affinity(
    selector: dict[str, str], spec: dict[str, Any], passes: bool
) -> None:
    labels = {"zone": "a", "level": "05", "kubernetes.io/hostname": "n1.internal.example"}

    found = node_affinity.check(pod(selector=selector, spec=spec), node_info(node(labels=labels)))

    assert found == (() if passes else (node_affinity.NO[0],))
    assert node_affinity.NO[0].text == TEXTS["nodeAffinity"]


# --- host ports ----------------------------------------------------------------------


def port(number: int, *, ip: str = "", protocol: str = "TCP") -> dict[str, Any]:
    return {"containerPort": 1, "hostPort": number, "hostIP": ip, "protocol": protocol}


@pytest.mark.parametrize(
    ("held", "wanted", "passes"),
    [
        pytest.param(port(80), port(81), True, id="another-number"),
        pytest.param(port(80), port(80), False, id="the-same"),
        pytest.param(port(80), port(80, protocol="UDP"), True, id="case-33-another-protocol"),
        pytest.param(port(80, ip="127.0.0.1"), port(80, ip="127.0.0.2"), True, id="case-33-ips"),
        pytest.param(port(80, ip="127.0.0.1"), port(80), False, id="case-33-every-ip-wanted"),
        pytest.param(port(80), port(80, ip="127.0.0.1"), False, id="every-ip-held"),
        pytest.param({"containerPort": 80}, port(80), True, id="no-host-port-no-conflict"),
        pytest.param(port(80, ip="::"), port(80, ip="127.0.0.1"), True, id="v6-is-a-plain-text"),
    ],
)
def test_host_ports(held: Any, wanted: Any, passes: bool) -> None:
    at = node_info(None, pod("old", node="n1", ports=[held]))

    assert node_ports.check(pod(ports=[wanted]), at) == (() if passes else (node_ports.REASON,))
    assert node_ports.REASON.text == TEXTS["nodePorts"]


def test_a_port_is_free_again_once_its_pod_is_gone() -> None:
    at = node_info(None, pod("old", node="n1", ports=[port(80)]))
    at.remove("team-old")

    assert node_ports.check(pod(ports=[port(80)]), at) == ()


@pytest.mark.parametrize(
    ("pod_fields", "conflicts"),
    [
        pytest.param({"containers": [{"name": "c", "ports": [port(80)]}]}, True, id="app"),
        pytest.param(
            {"init": [{"name": "c", "restartPolicy": "Always", "ports": [port(80)]}]},
            True,
            id="sidecar",
        ),
        pytest.param({"init": [{"name": "c", "ports": [port(80)]}]}, False, id="plain-init"),
        pytest.param(
            {"ports": [{"containerPort": 80}], "spec": {"hostNetwork": True}},
            True,
            id="host-network",
        ),
    ],
)
def test_conflicting_host_ports(pod_fields: Any, conflicts: bool) -> None:
    at = node_info(None, pod("old", node="n1", ports=[port(80)]))

    assert bool(node_ports.check(pod(**pod_fields), at)) is conflicts


# --- resources -----------------------------------------------------------------------


def golden_node(allocatable: dict[str, str]) -> Node:
    offers = {key: value for key, value in allocatable.items() if key not in ("cpu", "pods")}
    count = allocatable.get("pods")
    return node(
        cpu=allocatable["cpu"],
        memory=offers.pop("memory", "0"),
        pods=int(count) if count else None,
        offers=offers,
    )


@pytest.mark.contract("S2-B6")
@pytest.mark.parametrize(
    "row", [pytest.param(row, id=json.dumps(row["requests"])) for row in GOLDEN["fits"]]
)
def test_resources_fit_as_kube_scheduler_says(row: dict[str, Any]) -> None:
    running = [
        pod(f"r{number}", requests=requests, node="n1")
        for number, requests in enumerate(row["running"])
    ]
    found = node_resources_fit.check(
        pod(requests=row["requests"]), node_info(golden_node(row["allocatable"]), *running)
    )

    assert sorted(reason.text for reason in found) == row["reasons"]
    unresolvable = [reason.resource for reason in found if not reason.resolvable]
    assert sorted(unresolvable) == row["unresolvable"]


def test_shortage_is_reported_in_numbers() -> None:
    at = node_info(node(mig={"2g.20gb": 3}), pod("a", mig={"2g.20gb": 2}, node="n1"))

    assert node_resources_fit.check(pod(mig={"2g.20gb": 2}), at) == (
        Reason(
            code=REASON_CODES["INSUFFICIENT"],
            text="Insufficient nvidia.com/mig-2g.20gb",
            resource=MIG_2G,
            need=2,
            have=1,
        ),
    )


def test_node_over_its_cpu_takes_pods_without_cpu_requests() -> None:
    """Semantics case 26."""
    at = node_info(node(cpu="1", gpus=1), pod("a", requests={"cpu": "2"}, node="n1"))

    assert node_resources_fit.check(pod(gpus=1), at) == ()
    assert [
        reason.text for reason in node_resources_fit.check(pod(requests={"cpu": "1m"}), at)
    ] == ["Insufficient cpu"]


# --- devices -------------------------------------------------------------------------

MAPPED = pod("m-0", map="0=n1:0", node="n1", devices="gpu:0")
UNKNOWN = pod("u", gpus=1, node="n1")
FOREIGN = pod("f", gpus=1, node="n1", scheduler="default-scheduler", devices="gpu:0")
COUNTED, NUMBERED = node(gpus=4), node(gpus=4, with_gpu_indexes=True)
READER = container(gpus=1, env=[downward()])

WHO_PICKS: list[Any] = [
    pytest.param(COUNTED, [], pod(gpus=1), None, id="counted-empty"),
    pytest.param(COUNTED, [UNKNOWN], pod(gpus=1), None, id="counted-needs-no-numbers"),
    pytest.param(
        COUNTED, [MAPPED], pod(gpus=1), REASON_CODES["KUBELET_ASSIGNS_DEVICES"], id="mapped-past-it"
    ),
    pytest.param(COUNTED, [MAPPED], pod(), None, id="no-gpu-no-question"),
    pytest.param(
        node(gpus=4, mig={"2g.20gb": 1}),
        [MAPPED],
        pod(mig={"2g.20gb": 1}),
        REASON_CODES["KUBELET_ASSIGNS_DEVICES"],
        id="a-slice-may-be-on-the-mapped-card",
    ),
    pytest.param(NUMBERED, [MAPPED], pod(gpus=1), None, id="numbered-knows-the-mapped-one"),
    pytest.param(
        NUMBERED,
        [UNKNOWN],
        pod(gpus=1),
        REASON_CODES["DEVICE_ASSIGNMENT_UNKNOWN"],
        id="unknown-number",
    ),
    pytest.param(
        NUMBERED,
        [FOREIGN],
        pod(gpus=1),
        REASON_CODES["DEVICE_ASSIGNMENT_UNKNOWN"],
        id="c11-foreign-holder",
    ),
    pytest.param(NUMBERED, [UNKNOWN], pod(), None, id="unknown-number-of-no-interest"),
    pytest.param(
        node(gpus=4, mig={"2g.20gb": 1}, with_gpu_indexes=True),
        [UNKNOWN],
        pod(mig={"2g.20gb": 1}),
        None,
        id="slices-are-handed-out-by-count",
    ),
    pytest.param(
        node(gpus=4, mig={"2g.20gb": 1}, with_gpu_indexes=True),
        [MAPPED],
        pod(mig={"2g.20gb": 1}),
        REASON_CODES["KUBELET_ASSIGNS_DEVICES"],
        id="slice-on-an-unknown-gpu",
    ),
    pytest.param(
        COUNTED,
        [],
        pod(containers=[READER]),
        REASON_CODES["NO_DEVICE_FOR_ENV"],
        id="nothing-to-read-there",
    ),
    pytest.param(NUMBERED, [], pod(containers=[READER]), None, id="a-number-to-read"),
]


@pytest.mark.parametrize(("at", "running", "newcomer", "code"), WHO_PICKS)
def test_mapped_devices_per_assignment_mode(
    at: Node, running: list[Pod], newcomer: Pod, code: ReasonCode | None
) -> None:
    found = devices.check(newcomer, node_info(at, *running))

    assert [reason.code for reason in found] == ([] if code is None else [code])


def test_first_refusing_filter_gives_the_only_reason() -> None:
    """Same order as kube-scheduler, so the same pod gives the same sentence."""
    at = node(cordoned=True, taints=["a=b:NoSchedule"], gpus=0)
    all_wrong = pod(gpus=1, selector={"zone": "x"}, requests={"cpu": "999"})

    assert first_rejection(all_wrong, node_info(at), ALLOW_ALL_MAPS.points(all_wrong).filters) == (
        node_unschedulable.REASON,
    )
    open_again = node(taints=["a=b:NoSchedule"], gpus=0)
    assert [
        r.code
        for r in first_rejection(
            all_wrong, node_info(open_again), ALLOW_ALL_MAPS.points(all_wrong).filters
        )
    ] == [REASON_CODES["TAINT"]]
    clean = node(gpus=0)
    assert first_rejection(
        all_wrong, node_info(clean), ALLOW_ALL_MAPS.points(all_wrong).filters
    ) == (node_affinity.NO[0],)
    at_last = node(gpus=0, labels={"zone": "x"})
    assert {
        r.resource
        for r in first_rejection(
            all_wrong, node_info(at_last), ALLOW_ALL_MAPS.points(all_wrong).filters
        )
    } == {
        GPU,
        well_known.CPU,
    }
