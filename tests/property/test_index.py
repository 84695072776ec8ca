"""The index finds the node that a look at every node would find, whatever happened before."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decide import best_fit
from scheduler.decide.view import WhatIfView
from scheduler.framework.budget import Budget
from scheduler.model import well_known
from scheduler.model.crd.mig_partition import MigInstance, NodePartitions
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.selector import PreferredTerm, Requirement, Taint, Term, Toleration
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.index import label_keys
from scheduler.state.index import node_index as index_module
from scheduler.state.index.node_index import NodeIndex
from tests.best_node import SPREADING, best_node
from tests.builders import ALLOW_ALL_MAPS

NAMES = tuple(f"n{number}" for number in range(6))
IMAGES = {"app:1": 400, "app:2": 900}
PROFILES = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb")
ZONES = st.sampled_from(("a", "b", "c"))
TAINTS = (
    Taint(key="gpu", value="x", effect="NoSchedule"),
    Taint(key="slow", effect="PreferNoSchedule"),
)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(st.sampled_from(NAMES))
    allocatable = {"cpu": draw(st.sampled_from((2000, 8000))), "memory": 100, "pods": 5}
    for resource in ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"):
        if draw(st.integers(0, 3)):
            allocatable[resource] = draw(st.sampled_from((4, 4, 4, 2, 0)))
    labels = {"zone": draw(ZONES), "host": name}
    if draw(st.integers(0, 2)) == 0:
        labels |= {
            well_known.MIG_DYNAMIC: "true",
            well_known.GPU_COUNT: draw(st.sampled_from("112")),
        }
        labels[well_known.GPU_PRODUCT] = draw(st.sampled_from(("A100-SXM4-80GB", "H100-80GB-HBM3")))
        allocatable.pop(well_known.GPU, None)
    if draw(st.booleans()):
        labels["gpu-scheduler.io/devices"] = "numbered"
    if draw(st.integers(0, 2)) == 0:
        labels[well_known.DATA] = draw(st.sampled_from(("set-a", "set-b")))
    return Node(
        name=name,
        images=tuple(
            (image, size * 2**20) for image, size in IMAGES.items() if draw(st.booleans())
        ),
        labels=labels,
        unschedulable=draw(st.booleans()) and draw(st.booleans()),
        taints=tuple(taint for taint in TAINTS if draw(st.integers(0, 3)) == 3),
        allocatable=allocatable,
    )


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    resource = draw(
        st.sampled_from(
            ("", "nvidia.com/gpu", *(well_known.MIG_PREFIX + p for p in ("1g.10gb", *PROFILES)))
        )
    )
    requests = {"cpu": draw(st.integers(0, 3)) * 1000, "memory": draw(st.sampled_from((1, 60)))}
    if resource:
        requests[resource] = draw(st.integers(0, 3))
    if draw(st.integers(0, 9)) == 0:
        requests["nvidia.com/gpu"] = 1
    if draw(st.integers(0, 5)) == 0:
        requests[well_known.MIG_PREFIX + draw(st.sampled_from(PROFILES))] = 1
    selector = draw(
        st.sampled_from(
            ({}, {"zone": "a"}, {"host": "n1"}, {"zone": "b", "host": "n2"}, {"z": "q"})
        )
    )
    zone = Term(match_expressions=(Requirement("zone", "In", ("a", "b")),))
    field = Term(match_fields=(Requirement("metadata.name", "In", ("n3",)),))
    return Pod(
        uid=str(draw(st.integers(0, 10**6))),
        name="p",
        namespace="d",
        scheduler_name="gpu-scheduler",
        requests=requests,
        annotations=draw(
            st.sampled_from(({}, {}, *({well_known.DATA: one} for one in ("set-a", "set-a,set-b"))))
        ),
        images=draw(st.sampled_from(((), ("app:1",), ("app:1", "app:2", "other:1")))),
        node_selector=selector,
        required_terms=draw(st.sampled_from((None, None, None, (zone,), (field,), ()))),
        preferred_terms=draw(
            st.sampled_from(((), (), (PreferredTerm(weight=30, preference=zone),)))
        ),
        tolerations=draw(st.sampled_from(((), (Toleration(key="gpu", operator="Exists"),)))),
    )


@st.composite
def cuts(draw: st.DrawFn) -> NodePartitions:
    """Instances in an operator's status, true or not."""
    mig_placements = st.builds(
        MigPlacement, st.integers(0, 1), st.integers(0, 6), st.sampled_from(PROFILES)
    )
    found = draw(st.lists(st.builds(MigInstance, mig_placements), max_size=3))
    return NodePartitions(draw(st.sampled_from(NAMES)), instances=tuple(found))


STEPS = st.lists(
    st.one_of(
        nodes().map(lambda node: ("node", node)),
        st.sampled_from(NAMES).map(lambda name: ("lose", name)),
        pods().map(lambda pod: ("pod", pod)),
        pods().map(lambda pod: ("pod", pod)),
        st.integers(0, 5).map(lambda number: ("end", number)),
        st.integers(0, 5).map(lambda number: ("list", number)),
        cuts().map(lambda seen: ("cuts", seen)),
    ),
    min_size=5,
    max_size=30,
)


def agree(cluster: Cluster | WhatIfView, pod: Pod) -> str | None:
    """Check both directions of placement; returns the name of the best-fitting node."""
    found_names: list[str | None] = []
    for spread in (False, True):
        found = best_node(cluster, pod, spread=spread)
        pipeline = SPREADING if spread else ALLOW_ALL_MAPS
        scanned, _ = best_fit.scan(
            cluster.candidates(),
            pod,
            Budget(10**9),
            pipeline,
            tie_score=pipeline.points(pod).tie_score(cluster, pod),
            data=pipeline.points(pod).data_nodes(cluster, pod),
        )
        assert (found and found.node) == (scanned and scanned.node), f"spread={spread}"
        found_names.append(found.node.name if found and found.node else None)
    return found_names[0]


def spread_to(cluster: Cluster, pod: Pod) -> str:
    found = best_node(cluster, pod, spread=True)
    assert found is not None
    assert found.node is not None
    return found.node.name


def try_out(cluster: Cluster, pod: Pod) -> None:
    """Place more pods of the kind on top, each on the emptiest node: the order turns over."""
    overlay = WhatIfView(cluster)
    for number in range(3):
        found = best_node(overlay, pod, spread=True)
        if found is None or found.node is None:
            return
        clone = msgspec.structs.replace(pod, uid=f"{pod.uid}/{number}")
        overlay.place(clone, found.node.name, best_fit.devices(clone, found))
        agree(overlay, pod)


def fold_list(cluster: Cluster, placed: list[str], gone: object) -> None:
    """A list of pods shows every placed pod on its node but one, which is gone."""
    if isinstance(gone, int) and gone < len(placed):
        placed.pop(gone)
    names = {uid: assumption.node_name for uid, assumption in cluster.assumed.items()}
    with cluster.nodes.indexed_once():
        for uid in [uid for uid in cluster.pods if uid not in placed]:
            cluster.delete_pod(uid)
        for uid in placed:
            pod = cluster.pods[uid]
            name = pod.node_name or names[uid]
            cluster.upsert_pod(msgspec.structs.replace(pod, node_name=name))


def play(steps: list[tuple[str, object]]) -> None:
    cluster = Cluster()
    placed: list[str] = []
    for what, value in steps:
        if isinstance(value, Node):
            cluster.upsert_node(value)
        elif what == "lose":
            cluster.delete_node(str(value))
        elif isinstance(value, Pod) and value.uid not in cluster.pods:
            cluster.track_label_keys(value)
            name = agree(cluster, value)
            if name is not None:
                try_out(cluster, value)
                given = best_fit.devices(value, cluster.nodes.node_info[name])
                cluster.assume(value, Assumption(name, given))
                placed.append(value.uid)
        elif isinstance(value, NodePartitions):
            cluster.nodes.upsert_partitions(value)
        elif what == "list":
            fold_list(cluster, placed, value)
        elif isinstance(value, int) and value < len(placed):
            cluster.delete_pod(placed.pop(value))


@given(STEPS, st.sampled_from((1, 3)))
def test_index_and_full_scan_choose_the_same_node(
    steps: list[tuple[str, object]], patience: int
) -> None:
    before = label_keys.PATIENCE
    label_keys.PATIENCE = patience
    try:
        play(steps)
    finally:
        label_keys.PATIENCE = before


@given(STEPS, st.integers(0, 2))
def test_index_equals_scan_beyond_the_label_limit(
    steps: list[tuple[str, object]], most: int
) -> None:
    """By pod, and in all."""
    before = label_keys.PATIENCE, label_keys.KEYS_MAX, label_keys.KEYS_PER_POD_MAX
    label_keys.PATIENCE, label_keys.KEYS_MAX, label_keys.KEYS_PER_POD_MAX = 1, most, 1
    try:
        play(steps)
    finally:
        label_keys.PATIENCE, label_keys.KEYS_MAX, label_keys.KEYS_PER_POD_MAX = before


@given(STEPS)
def test_index_equals_scan_for_high_cardinality_labels(
    steps: list[tuple[str, object]],
) -> None:
    """Host names become a wide key as soon as three of them are seen."""
    before = index_module.VALUES_MAX, index_module.CLASSES_MAX, label_keys.PATIENCE
    index_module.VALUES_MAX, index_module.CLASSES_MAX, label_keys.PATIENCE = 2, 4, 1
    try:
        play(steps)
    finally:
        index_module.VALUES_MAX, index_module.CLASSES_MAX, label_keys.PATIENCE = before


def test_nodes_differing_in_unselected_labels_are_one_class() -> None:
    cluster = Cluster()
    for number in range(50):
        labels = {"id": str(number), "stamp": f"t{number}"}
        cluster.upsert_node(Node(name=f"n{number}", labels=labels, allocatable={"pods": 1}))

    assert len(cluster.index.classes) == 1


def test_classes_stay_few_for_a_label_with_a_value_per_node() -> None:
    cluster = Cluster()
    for number in range(1000):
        cluster.upsert_node(Node(name=f"n{number}", labels={"host": str(number)}, allocatable={}))
    for _ in range(label_keys.PATIENCE):
        cluster.index.track_label_keys(["host"], cluster.nodes.node_info)

    assert len(cluster.index.classes) == 1
    assert cluster.index.with_value("host", "7") == {"n7"}
    assert not cluster.index.covers(["host"])


def test_growing_cluster_marks_high_cardinality_keys() -> None:
    cluster = Cluster()
    cluster.index.labels.name((), ["host"])
    for number in range(index_module.CLASSES_MAX + 10):
        cluster.upsert_node(Node(name=f"n{number}", labels={"host": str(number)}, allocatable={}))

    assert len(cluster.index.classes) <= index_module.CLASSES_MAX
    assert "host" in cluster.index.high_cardinality


def test_pod_without_devices_avoids_gpu_nodes_even_when_spreading() -> None:
    cluster = Cluster()
    cluster.upsert_node(
        Node(name="gpus", allocatable={"cpu": 9000, "pods": 9, "nvidia.com/gpu": 4})
    )
    for name, cpu in (("small", 2000), ("large", 8000)):
        cluster.upsert_node(Node(name=name, allocatable={"cpu": cpu, "pods": 9}))
    pod = Pod(uid="1", name="p", namespace="d", requests={"cpu": 1000})

    assert [agree(cluster, pod), spread_to(cluster, pod)] == ["small", "large"]


def test_what_if_changes_reorder_the_node() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        allocatable = {"cpu": 8000, "pods": 9, "nvidia.com/gpu": 4}
        cluster.upsert_node(Node(name=name, allocatable=allocatable))
    pod = Pod(uid="1", name="p", namespace="d", requests={"nvidia.com/gpu": 1})
    overlay = WhatIfView(cluster)
    overlay.place(pod, "a", Devices())

    found = best_node(overlay, pod, spread=True)

    assert found is not None
    assert found.node is not None
    assert found.node.name == "b"


def test_dropping_an_unknown_node_changes_nothing() -> None:
    index = NodeIndex()
    index.drop("absent")

    assert index.epoch == 0
