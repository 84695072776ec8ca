"""With any owners, labels and maps: one device has one owner, one index has one pod."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.model import well_known
from scheduler.model.limits import MAP_INDEX_MAX
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_index import SOURCES, IndexRule
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.node_info import over_committed
from tests.builders import ALLOW_ALL_MAPS, as_bound, cluster, node, pod

#: Pods of all of these want the same few devices.
TEXTS = ("0=n0:0\n1=n0:1\n2=n1:0", "0=n0:0\n1=n1:0\n2=n1:1", "0=n1:1\n1=gone:0\n2=n0:0\n3=n0:0")
OWNERS = (
    *("Deployment/web@r1", "Deployment/db@r1", "Job/train", "Job/set-w-0", "Job/set-w-1"),
    *("StatefulSet/lws", "StatefulSet/lws-1", "PyTorchJob.kubeflow.org/t", "RayCluster.ray.io/r"),
    *("ReplicaSet.x.example/web-r1", "PodClique.grove.io/inf-0-a", "Pod/driver"),
)
KEYS = (
    *(
        well_known.JOB_INDEX,
        well_known.STATEFULSET_INDEX,
        well_known.TRAINING_REPLICA,
        well_known.RAY_HOST,
    ),
    *(
        well_known.RAY_REPLICA,
        well_known.LWS_WORKER,
        well_known.LWS_GROUP,
        well_known.GROVE_POD,
        well_known.GROVE_REPLICA,
    ),
    *(
        well_known.JOBSET_JOB,
        well_known.JOBSET_JOBS,
        well_known.JOBSET_GLOBAL_JOB,
        well_known.KUEUE_POD,
    ),
    *(well_known.JOBSET_GROUP, well_known.JOBSET_GROUP_JOB, well_known.JOBSET_GROUP_JOBS),
)
ALIKE = {
    well_known.JOBSET_NAME: "set",
    well_known.JOBSET_PART: "w",
    well_known.LWS_NAME: "lws",
    well_known.GROVE_SET: "inf",
}


@st.composite
def claimants(draw: st.DrawFn) -> list[Pod]:
    """Pods of many kinds of owners, with labels that fit them or do not."""
    return [
        pod(
            draw(st.sampled_from(["w-0", "w-1", "w-exec-1", "w-x"])),
            uid=f"u{number}",
            namespace=draw(st.sampled_from(["team", "team", "other"])),
            owner=draw(st.sampled_from(OWNERS)),
            map=draw(st.sampled_from(TEXTS)),
            labels={
                **draw(st.sampled_from([{}, ALIKE])),
                **draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from("012x"), max_size=4)),
            },
            annotations=draw(st.sampled_from([{}, {well_known.LWS_SIZE: "2"}])),
        )
        for number in range(draw(st.integers(3, 10)))
    ]


@settings(max_examples=settings().max_examples // 2)
@given(claimants(), st.booleans(), st.lists(st.integers(0, 3), min_size=1, max_size=10))
def test_device_has_one_owner_and_index_one_pod(
    pods: list[Pod], cordoned: bool, ends: list[int]
) -> None:
    state = cluster(node("n0", cordoned=cordoned), node("n1"))
    for number, one in enumerate(pods):
        state.upsert_pod(one)
        decision = schedule_one(state, one, ALLOW_ALL_MAPS)
        if not isinstance(decision, Placement):
            continue
        assert decision.node_name == "n1" or not cordoned
        state.assume(one, Assumption(decision.node_name, decision.devices, decision.index))
        if ends[number % len(ends)] == 1:
            state.upsert_pod(as_bound(decision))
        elif ends[number % len(ends)] == 2:
            state.delete_pod(one.uid)
        check(state)


def check(state: Cluster) -> None:
    """Told without the product's idea of a workload: by namespace, and the owner's name."""
    held: Counter[tuple[Any, ...]] = Counter()
    for node_info in state.candidates():
        assert over_committed(node_info) == {}
        owners: dict[int, set[tuple[str, str]]] = {}
        for one, allocation in node_info.pods.values():
            assert one.owner is not None
            for number in allocation.numbers:
                owners.setdefault(number, set()).add((one.namespace, family(one)))
        assert all(len(each) == 1 for each in owners.values()), owners
    for one in state.pods.values():
        assumed = state.assumed.get(one.uid)
        index = assumed.index if assumed else one.annotations.get(well_known.POD_INDEX)
        if index is not None and (assumed or one.node_name):
            held[one.namespace, family(one), one.map_text, int(index)] += 1
    assert not [each for each, count in held.items() if count > 1]


def family(one: Pod) -> str:
    """The owner, or the three kinds of owners above it that these pods can have."""
    assert one.owner is not None
    labels, name = one.labels, one.owner.name
    job_set = f"set-w-{labels.get(well_known.JOBSET_JOB)}"
    group = f"lws-{labels.get(well_known.LWS_GROUP)}"
    if one.owner.word == "Job" and labels.get(well_known.JOBSET_NAME) and name == job_set:
        return "set"
    if (
        one.owner.word == "StatefulSet"
        and labels.get(well_known.LWS_NAME)
        and name in ("lws", group)
    ):
        return "lws"
    return f"{one.owner.word}/{name}"


@given(
    st.sampled_from([None, *OWNERS]),
    st.text(max_size=8) | st.sampled_from(["w-1", "w-exec-9", f"w-{10**30}"]),
    st.dictionaries(
        st.sampled_from(KEYS), st.text(max_size=6) | st.just(str(MAP_INDEX_MAX)), max_size=6
    ),
    st.text(max_size=6) | st.just(str(MAP_INDEX_MAX)),
    st.integers(0, 50),
)
def test_an_index_is_bounded_or_a_rule_whatever_labels_say(
    owner: str | None, name: str, labels: dict[str, str], size: str, lines: int
) -> None:
    marked = pod("w", owner=owner or "", labels=labels, annotations={well_known.LWS_SIZE: size})

    index = msgspec.structs.replace(marked, name=name).index(lines)

    assert isinstance(index, IndexRule) or 0 <= index <= MAP_INDEX_MAX


def test_every_index_label_is_covered() -> None:
    assert not [
        key
        for source in SOURCES
        for key in source.labels
        if key not in (*KEYS, *ALIKE)
        if key not in (well_known.JOBSET_GLOBAL_JOBS, well_known.GROVE_GROUP)
    ]


@given(st.lists(st.integers(0, 5), min_size=6, max_size=6, unique=True), st.integers(0, 63))
def test_numbered_pods_get_their_lines_and_others_all_free_ones(
    order: list[int], cordons: int
) -> None:
    nodes = [node(f"n{at}", cordoned=bool(cordons >> at & 1)) for at in range(6)]
    text = "\n".join(f"{at}=n{at}:0" for at in range(6))
    usable = {at for at in range(6) if not cordons >> at & 1}
    with_gpu_indexes, plain = cluster(*nodes), cluster(*nodes)
    got: dict[int, int | None] = {}
    taken: list[int | None] = []
    for at in order:
        owner = "MPIJob.kubeflow.org/m"
        worker = pod(
            f"w-{at}", owner=owner, map=text, labels={well_known.TRAINING_REPLICA: str(at)}
        )
        got[at] = _settled(with_gpu_indexes, worker)
        taken.append(_settled(plain, pod(f"p-{at}", owner="Deployment/web", map=text)))

    assert got == {at: at if at in usable else None for at in range(6)}
    assert [index for index in taken if index is not None] == sorted(usable)


def _settled(state: Cluster, one: Pod, pipeline: Pipeline = ALLOW_ALL_MAPS) -> int | None:
    state.upsert_pod(one)
    decision = schedule_one(state, one, pipeline)
    if not isinstance(decision, Placement):
        return None
    state.assume(one, Assumption(decision.node_name, decision.devices, decision.index))
    return decision.index
