"""The tier of a pod at admission: free capacity, reservations, priorities, ladders and scope."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.decide.admission.admit import Rules
from scheduler.model import well_known
from scheduler.model.admission import Scope
from scheduler.model.mig.fallback_ladder import parse_ladder
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.node_info import NodeInfo
from tests.builders import PodFields, namespace, node, pod, settle
from tests.unit.decide.admission.admission_world import LADDER, NOW, World, seed_nodes, wants_2g

KEPT, DEGRADED, WAITS, UNTOUCHED, DENIED = "2g.20gb", "1g.10gb", "pending", "untouched", "denied"


# --- what is free --------------------------------------------------------------------


@pytest.mark.contract("S0-20", "S0-24", "S0-B2", "S0-B3")
def test_twelve_pods_keep_their_tier_then_degrade_then_wait() -> None:
    """No pod is bound in between: only the reservations count."""
    world = World(*seed_nodes())

    tiers = [world.admit(wants_2g()) for _ in range(12 + 32 + 3)]

    assert tiers == [KEPT] * 12 + [DEGRADED] * 32 + [WAITS] * 3


@pytest.mark.contract("S0-B2", "S3-15")
def test_running_pods_count_whatever_scheduler_bound_them() -> None:
    bound = [
        pod(f"b-{n}", mig={"2g.20gb": 1}, node="medium", scheduler="default-scheduler")
        for n in range(12)
    ]

    assert World(*seed_nodes(), *bound).admit(wants_2g()) == DEGRADED


def test_reservation_and_pod_count_once_from_admission_to_end() -> None:
    world = World(node("m", mig={"2g.20gb": 2, "1g.10gb": 9}))
    assert world.admit(wants_2g()) == KEPT
    shown = world.appear("2g.20gb", 1)
    assert world.ask(wants_2g()).result == "kept"
    world.bind_elsewhere(shown, "m")
    assert world.admit(wants_2g()) == KEPT
    assert world.ask(wants_2g()).result == "degraded"
    world.cluster.delete_pod(shown.uid)
    assert world.ask(wants_2g()).result == "kept"


def test_reserved_pod_with_a_binding_in_flight_counts_once() -> None:
    """Its reservation lasts until the Binding is confirmed: it may still fail."""
    world = World(node("a", mig={"2g.20gb": 1}), node("b", mig={"2g.20gb": 1, "1g.10gb": 1}))
    world.admit(wants_2g())
    shown = world.appear("2g.20gb", 1)
    world.cluster.upsert_node(node("a", mig={"2g.20gb": 1}, cordoned=True))
    assert settle(world.cluster, shown).node_name == "b"
    world.cluster.upsert_node(node("a", mig={"2g.20gb": 1}))

    assert world.admit(wants_2g()) == KEPT
    assert world.admit(wants_2g()) == DEGRADED


def test_reserved_pod_waiting_for_its_tier_counts_once() -> None:
    """It lost the slice at bind and waits: still one slice, wherever it would fit."""
    world = World(node("a", mig={"2g.20gb": 1}), node("b", mig={"2g.20gb": 1, "1g.10gb": 1}))
    world.admit(wants_2g())
    shown = world.appear("2g.20gb", 1)
    world.waiting = [shown]

    assert world.ask(wants_2g()).result == "kept"


class Counting(Cluster):
    """Counts full scans of the nodes."""

    looks = 0

    def candidates(self) -> Iterator[NodeInfo]:
        self.looks += 1
        return super().candidates()


def test_many_pending_reservations_cost_one_search() -> None:
    """A thousand pods that wait must not make every admission dear."""
    world = World()
    world.cluster = counting = Counting()
    counting.upsert_node(node("m", mig={"2g.20gb": 1, "1g.10gb": 1}))
    for number in range(1, 40):
        world.reservations.create(f"r-{number}", wants_2g(), "m", NOW, is_annotated=True)
        world.appear("2g.20gb", number)

    assert world.ask(wants_2g()).result == "degraded"
    assert counting.looks <= 4


def test_reserved_whole_gpu_takes_one_gpu_of_the_node() -> None:
    """Its index is not chosen yet; that must not hide the other GPUs of an index-assigned node."""
    ladder = Rules(ladders=(parse_ladder("2g.20gb->gpu"),))
    world = World(node("n", gpus=2, with_gpu_indexes=True), rules=ladder)

    assert [world.admit(wants_2g()) for _ in range(3)] == ["gpu", "gpu", WAITS]


FITS: list[Any] = [
    pytest.param({"count": 3}, [node("a", mig={"2g.20gb": 3})], KEPT, id="quantity-fits"),
    pytest.param(
        {"count": 3},
        [node("a", mig={"2g.20gb": 2}), node("b", mig={"2g.20gb": 2, "1g.10gb": 3})],
        DEGRADED,
        id="not-spread-over-two-nodes",
    ),
    pytest.param(
        {},
        [node("a", mig={"2g.20gb": 1}, cordoned=True), node("b", mig={"1g.10gb": 1})],
        DEGRADED,
        id="cordoned",
    ),
    pytest.param(
        {},
        [node("a", mig={"2g.20gb": 1}, taints=["x=y:NoSchedule"]), node("b", mig={"1g.10gb": 1})],
        DEGRADED,
        id="tainted",
    ),
    pytest.param(
        {"selector": {"zone": "z"}},
        [node("a", mig={"2g.20gb": 1}), node("b", mig={"1g.10gb": 1}, labels={"zone": "z"})],
        DEGRADED,
        id="selected-away",
    ),
    pytest.param(
        {"requests": {"memory": "2Gi"}},
        [node("a", mig={"2g.20gb": 1}, memory="1Gi"), node("b", mig={"1g.10gb": 1})],
        DEGRADED,
        id="no-memory-beside-the-slice",
    ),
    pytest.param({}, [node("a", mig={"2g.20gb": 0, "1g.10gb": 1})], DEGRADED, id="offers-none"),
    pytest.param({}, [node("a", gpus=4)], WAITS, id="no-mig-anywhere"),
    pytest.param({}, [], WAITS, id="no-nodes"),
]


@pytest.mark.contract("S0-B5")
@pytest.mark.parametrize(("fields", "nodes", "tier"), FITS)
def test_a_tier_is_free_only_where_the_pod_could_really_run(
    fields: dict[str, Any], nodes: list[Node], tier: str
) -> None:
    assert World(*nodes).admit(wants_2g(**fields)) == tier


# --- which pods and reservations count ------------------------------------------------


def waiting_2g(number: int, **fields: Any) -> Pod:
    return wants_2g(f"old-{number}", uid=f"u-{number}", **fields)


def test_twelve_unplaceable_pods_degrade_no_pod() -> None:
    world = World(*seed_nodes())
    world.waiting = [waiting_2g(n, selector={"no": "such-node"}) for n in range(12)]

    assert world.admit(wants_2g()) == KEPT


def one_slice(**waiting: Any) -> World:
    world = World(node("m", mig={"2g.20gb": 1, "1g.10gb": 1}))
    world.waiting = [waiting_2g(1, **waiting)]
    return world


@pytest.mark.parametrize(
    ("waiting", "newcomer", "tier"),
    [
        pytest.param(0, 0, DEGRADED, id="equals-wait-longer"),
        pytest.param(5, 0, DEGRADED, id="the-stronger-waits"),
        pytest.param(0, 1000, KEPT, id="the-newcomer-is-stronger"),
    ],
)
def test_pod_waiting_for_the_tier_goes_first_by_priority(
    waiting: int, newcomer: int, tier: str
) -> None:
    """A slice was just freed; the queue has not decided yet."""
    assert one_slice(priority=waiting).admit(wants_2g(priority=newcomer)) == tier


@pytest.mark.parametrize(
    ("promised", "newcomer", "tier"),
    [
        pytest.param(0, 0, DEGRADED, id="equals"),
        pytest.param(0, 1000, KEPT, id="the-newcomer-is-stronger"),
    ],
)
def test_reservation_is_respected_unless_lower_in_priority(
    promised: int, newcomer: int, tier: str
) -> None:
    world = World(node("m", mig={"2g.20gb": 1, "1g.10gb": 1}))
    world.admit(wants_2g(priority=promised))

    assert world.admit(wants_2g(priority=newcomer)) == tier


def test_waiting_pods_with_different_selectors_are_counted_apart() -> None:
    """One that cannot be placed must not silence a mapped one of the same size that can."""
    world = World(
        node("m", mig={"2g.20gb": 1, "1g.10gb": 1}),
        node("x", mig={"2g.20gb": 0}),
        namespace("team", maps=True),
    )
    world.waiting = [wants_2g(f"{token}-0", uid=token, map=f"0={token}:0") for token in ("x", "m")]

    assert world.admit(wants_2g()) == DEGRADED


def test_controller_retry_is_not_degraded_by_its_own_reservation() -> None:
    """The quota refused the first one after its admission, so its pod never appears."""
    world = World(node("m", mig={"2g.20gb": 1, "1g.10gb": 1}))
    retry = wants_2g(owner="Deployment/web")
    assert world.admit(retry) == KEPT

    assert world.ask(retry, now=NOW + 0.5).result == "degraded"
    assert world.admit(retry, now=NOW + 1.5) == KEPT
    assert len(world.reservations) == 1


# --- pods that are not degraded -------------------------------------------------------

LEFT_ALONE: list[Any] = [
    pytest.param({"gates": ["x.example/hold"]}, id="gated"),
    pytest.param({"node": "m"}, id="has-its-node"),
    pytest.param({"owner": "DaemonSet/agent"}, id="daemonset"),
    pytest.param({"owner": "Node/m"}, id="mirror-pod"),
    pytest.param({"annotations": {well_known.PREFER: "preempt"}}, id="would-rather-preempt"),
    pytest.param({"map": "0=m:0"}, id="mapped"),
    pytest.param({"spec": {"workloadRef": {"name": "w"}}}, id="uses-an-unsupported-field"),
    pytest.param({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, id="in-a-queue-of-kueue"),
    pytest.param({"labels": {"kueue.x-k8s.io/podset": "main"}}, id="started-by-kueue"),
    pytest.param(
        {"annotations": {well_known.KUEUE_PARENT: "statefulset"}},
        id="of-a-stateful-set-in-a-queue-of-kueue",
    ),
    pytest.param({"mig": {}}, id="asks-for-no-slice"),
    pytest.param({"mig": {}, "gpus": 1}, id="asks-for-whole-gpus"),
    pytest.param({"mig": {"2g.20gb": 0}}, id="asks-for-zero"),
]


@pytest.mark.parametrize("fields", LEFT_ALONE)
def test_some_pods_are_neither_degraded_nor_reserved(fields: dict[str, Any]) -> None:
    strict = Rules(ladders=(parse_ladder("2g.20gb->1g.10gb->fail"),))
    for at in (node("m", mig={"1g.10gb": 9}), node("m", gpus=1)):
        admission = World(at, rules=strict).ask(wants_2g(**fields))

        assert (admission.result, admission.granted) == (UNTOUCHED, None)
        assert (admission.answer.rewrites, admission.answer.denied) == ((), None)


OTHERS: PodFields = {"scheduler": "default-scheduler"}
ENABLED = {well_known.FALLBACK_NAMESPACE: "enabled"}
SCOPES = [
    pytest.param({}, "ours", "ours", {}, DEGRADED, id="ours"),
    pytest.param({}, "any", "all", {}, UNTOUCHED, id="ours-come-by-their-own-entry"),
    pytest.param(OTHERS, "ours", "all", {}, UNTOUCHED, id="others-never-by-ours"),
    pytest.param(OTHERS, "any", "ours", {}, UNTOUCHED, id="others-out-of-scope"),
    pytest.param(OTHERS, "any", "all", {}, DEGRADED, id="others-in-scope-all"),
    pytest.param(OTHERS, "any", "ours", ENABLED, DEGRADED, id="others-in-an-enabled-namespace"),
]


@pytest.mark.parametrize(("fields", "scope", "configured", "labels", "result"), SCOPES)
def test_fallback_scope(
    fields: PodFields, scope: Scope, configured: str, labels: dict[str, str], result: str
) -> None:
    rules = Rules(ladders=(LADDER,), scope=configured)
    world = World(node("m", mig={"1g.10gb": 9}), namespace("team", labels=labels), rules=rules)

    assert world.admit(wants_2g(**fields), scope) == result


def test_another_schedulers_pod_may_use_what_we_do_not_implement() -> None:
    spread = {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "Later"}]}
    rules = Rules(ladders=(LADDER,), scope="all")
    world = World(node("m", mig={"1g.10gb": 9}), rules=rules)

    assert world.admit(wants_2g(spec=spread, **OTHERS), "any") == DEGRADED
    assert world.admit(wants_2g(spec=spread)) == UNTOUCHED


@pytest.mark.parametrize(
    ("fields", "at", "annotate"),
    [
        pytest.param({}, node("m", mig={"2g.20gb": 1}), True, id="ours"),
        pytest.param(OTHERS, node("m", mig={"2g.20gb": 1}), False, id="others-kept"),
        pytest.param(OTHERS, node("m", mig={"1g.10gb": 1}), True, id="others-rewritten-anyway"),
    ],
)
def test_pod_that_keeps_its_tier_is_not_annotated(
    fields: PodFields, at: Node, annotate: bool
) -> None:
    rules = Rules(ladders=(LADDER,), scope="all")
    answer = World(at, rules=rules).ask(wants_2g(**fields), "any" if fields else "ours").answer

    assert answer.annotate is annotate


# --- what the map's nodes are --------------------------------------------------------


def test_decision_says_which_map_nodes_assign_indexes() -> None:
    world = World(
        node("real", labels={"gpu-node-name": "node1"}),
        node("plugin", gpus=4),
        node("ours", gpus=4, with_gpu_indexes=True),
        *(node(name, labels={"gpu-node-name": "twins"}) for name in ("one", "two")),
        node("foreign", labels={"gpu-node-name": "plugin"}),
    )
    mapped = pod("w-0", map="0=node1:0\n1=ours:1\n2=nowhere:0\n3=twins:0\n4=plugin:0")

    kinds = world.ask(mapped).answer.node_kinds

    assert {token: (kind.node, kind.kind) for token, kind in kinds.items()} == {
        "node1": ("real", "numbered"),
        "ours": ("ours", "numbered"),
        "nowhere": (None, "unknown"),
        "twins": (None, "unknown"),
        "plugin": ("plugin", "counted"),
    }
    assert world.ask(pod("w-0", map="nonsense")).answer.node_kinds == {}


@pytest.mark.parametrize("allowed", [True, False])
def test_the_answer_says_whether_the_namespace_may_map(allowed: bool) -> None:
    world = World(node("n1"), namespace(maps=allowed))

    assert world.ask(pod("w-0", map="0=n1:0")).answer.may_map is allowed
