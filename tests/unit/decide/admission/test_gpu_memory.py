"""``gpu-scheduler.io/gpu-memory``: the smallest thing that has so much and is free."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.admission.admit import Admission
from scheduler.decide.admission.fallback_policy import policy_of
from scheduler.decide.migration.rescue import as_recreated, rescuable
from scheduler.model import well_known
from scheduler.model.admission import NOTHING, ResourceRewrite
from scheduler.model.crd.migration import MigrationKind
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import Quota
from scheduler.plugins import REASON_CODES
from tests.builders import ALLOW_ALL_MAPS, GPU, MIG_1G, MIG_2G, codes, container, dynamic, node, pod
from tests.unit.decide.admission.admission_world import World

MIG_1G20 = "nvidia.com/mig-1g.20gb"
CARD = {well_known.GPU_MEMORY: "81559"}
EVERYTHING = node(
    "n",
    gpus=1,
    labels=CARD,
    mig={"1g.10gb": 1, "2g.20gb": 1, "1g.20gb": 1, "3g.40gb": 1, "1g.20gb.me": 1, "1c.2g.20gb": 1},
)


def wants(amount: str, **fields: Any) -> Pod:
    given = {well_known.WANTED_MEMORY: amount, **fields.pop("annotations", {})}
    return pod("w-", **{"uid": "", "annotations": given, **fields})


def given(admission: Admission) -> list[str]:
    """What the containers get."""
    return [well_known.mig_profile(one.target) for one in admission.answer.rewrites]


@pytest.mark.contract("S3-B8")
def test_smallest_memory_then_least_compute_then_whole_gpu() -> None:
    """Seed 003 chose by compute first, and so between types of one memory by chance."""
    world = World(EVERYTHING)

    taken = [world.admit(wants("16Gi")) for _ in range(6)]

    assert taken == ["1g.20gb", "1g.20gb.me", "2g.20gb", "3g.40gb", "gpu", "pending"]


@pytest.mark.parametrize(
    ("amount", "profile"),
    [
        pytest.param("5Gi", "1g.10gb", id="less-than-the-smallest"),
        pytest.param("10Gi", "1g.10gb", id="exactly"),
        pytest.param("11Gi", "1g.20gb", id="a-little-more"),
        pytest.param("40Gi", "3g.40gb", id="large"),
        pytest.param("41Gi", "gpu", id="more-than-any-slice"),
        pytest.param("80Gi", "gpu", id="all-of-a-card"),
    ],
)
def test_profile_for_a_memory_amount(amount: str, profile: str) -> None:
    admission = World(EVERYTHING).ask(wants(amount))

    assert given(admission) == [profile]
    assert admission.answer.rewrites[0] == ResourceRewrite(
        container="app", source=NOTHING, target=well_known.mig_resource(profile)
    )
    assert admission.is_reserved


def test_only_large_enough_gpus_count_and_bind_the_pod_to_such_nodes() -> None:
    nodes = [
        node("small", gpus=8, labels={well_known.GPU_MEMORY: "23028"}),
        node("untold", gpus=8),
        node("large", gpus=8, labels=CARD),
    ]
    admission = World(*nodes).ask(wants("40Gi"))

    assert admission.granted is not None
    assert admission.granted.placement.node_name == "large"
    assert admission.answer.where.memory_mib == 38503
    assert admission.granted.pod.required_terms is not None


def test_dynamic_gpus_offer_every_possible_partition() -> None:
    assert given(World(dynamic()).ask(wants("16Gi"))) == ["1g.20gb"]


def test_where_nothing_is_free_the_pod_waits_for_the_smallest() -> None:
    """Without a request it would run without a GPU."""
    world = World(node("n", mig={"2g.20gb": 1, "1g.10gb": 9}))
    world.admit(wants("16Gi"))

    admission = world.ask(wants("16Gi"))

    assert (admission.result, given(admission)) == ("pending", ["2g.20gb"])
    assert not admission.is_reserved


def test_without_enough_memory_anywhere_pod_waits_for_a_whole_gpu() -> None:
    admission = World(node("n", mig={"1g.10gb": 9})).ask(wants("16Gi"))

    assert (admission.result, given(admission)) == ("pending", ["gpu"])
    assert admission.answer.where.memory_mib == 15401


def test_whole_gpu_for_a_part_of_its_memory_is_a_warning() -> None:
    [text] = World(node("n", gpus=1, labels=CARD)).ask(wants("16Gi")).answer.warnings

    assert text.startswith("the pod requested 16Gi of GPU memory and has a whole GPU with 79.6Gi (")


def test_more_memory_than_any_gpu_has_is_a_warning_with_numbers() -> None:
    admission = World(node("n", gpus=1, labels=CARD)).ask(wants("200Gi"))

    assert admission.answer.warnings == (
        "the pod can never be placed here: requests 200Gi of GPU memory and the largest GPU here"
        " has 79.6Gi (81559 MiB)",
    )


def test_profile_with_a_full_quota_is_skipped() -> None:
    world = World(EVERYTHING)
    world.cluster.quotas.upsert(Quota(namespace="team", name="q", hard={MIG_1G20: 0}))

    assert given(world.ask(wants("16Gi"))) == ["1g.20gb.me"]


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        pytest.param("prep=16Gi", {"prep": "1g.20gb"}, id="an-init-container"),
        pytest.param("side=5Gi", {"side": "1g.10gb"}, id="a-later-container"),
        pytest.param("app=16Gi,side=16Gi", {"app": "1g.20gb", "side": "1g.20gb.me"}, id="two"),
        pytest.param("16Gi", {"app": "1g.20gb"}, id="the-first-regular-one"),
    ],
)
def test_the_annotation_says_which_container(amounts: str, expected: dict[str, str]) -> None:
    body = wants(
        amounts, init=[container("prep")], containers=[container("app"), container("side")]
    )
    admission = World(EVERYTHING).ask(body)

    found = {one.container: one for one in admission.answer.rewrites}
    assert {name: well_known.mig_profile(one.target) for name, one in found.items()} == expected
    assert all(one.init is (name == "prep") for name, one in found.items())


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        pytest.param(
            {"mig": {"2g.20gb": 1}},
            f"the pod also requests {MIG_2G}; keep one of the two",
            id="mig",
        ),
        pytest.param(
            {"init": [container("prep", gpus=1)]},
            f"the pod also requests {GPU}; keep one of the two",
            id="a-gpu-of-an-init-container",
        ),
        pytest.param(
            {"map": "0=n:0"},
            "the pod also has a gpu-scheduling-map, which names its GPUs; keep one of the two",
            id="a-map",
        ),
        pytest.param({"node": "n"}, "the pod has a node already (n)", id="a-node"),
    ],
)
def test_two_memory_requests_of_one_container_are_denied_in_one_line(
    fields: dict[str, Any], line: str
) -> None:
    admission = World(EVERYTHING).ask(wants("16Gi", **fields))

    assert admission.result == "denied"
    assert str(admission.answer.denied).startswith(f"gpu-scheduler.io/gpu-memory: {line}")


def test_a_bad_amount_is_refused_with_one_line() -> None:
    admission = World(EVERYTHING).ask(wants("much"))

    assert admission.answer.denied == (
        "gpu-scheduler.io/gpu-memory: 'much' is not an amount of memory such as 16Gi"
    )


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"gates": ["wait"]}, id="gated"),
        pytest.param({"owner": "DaemonSet/d"}, id="of-a-daemonset"),
        pytest.param({"annotations": {well_known.PREFER: "preempt"}}, id="prefers-to-preempt"),
    ],
)
def test_pod_without_reservation_still_gets_its_request(fields: dict[str, Any]) -> None:
    admission = World(EVERYTHING).ask(wants("16Gi", **fields))

    assert given(admission) == ["1g.20gb"]
    assert not admission.is_reserved


def test_second_call_changes_nothing() -> None:
    """Although the pod then has both: the annotation, and the device for it."""
    record = {well_known.WANTED_MEMORY: "16Gi", well_known.MEMORY_GIVEN: "app=1g.20gb"}
    again = pod("w", mig={"1g.20gb": 1}, annotations=record)

    admission = World(EVERYTHING).ask(again)

    assert (admission.result, admission.answer.rewrites) == ("untouched", ())
    assert admission.answer.denied is None


def test_pods_of_other_schedulers_are_not_translated() -> None:
    admission = World(EVERYTHING).ask(wants("16Gi", scheduler="other"), "any")

    assert (admission.result, given(admission)) == ("untouched", [])


def test_untranslated_memory_request_blocks_a_start_without_gpu() -> None:
    world = World(EVERYTHING)

    assert codes(world.cluster, wants("16Gi")) == {REASON_CODES["NOT_MUTATED"]}


def test_pod_waiting_for_a_full_profile_is_rescued_to_a_free_one() -> None:
    """Its next admission starts from the annotation, not from the former device."""
    world = World(node("n", gpus=1, mig={"1g.20gb": 1}, labels=CARD))
    first = pod("first", mig={"1g.20gb": 1}, node="n")
    world.cluster.upsert_pod(first)
    record = {well_known.WANTED_MEMORY: "16Gi", well_known.MEMORY_GIVEN: "app=1g.20gb"}
    stuck = pod("w-1", mig={"1g.20gb": 1}, owner="Deployment/w", annotations=record)
    world.cluster.upsert_pod(stuck)

    assert as_recreated(stuck).gpu_requests == {}
    policy, _ = policy_of(world.cluster, as_recreated(stuck), (), (), frozenset())
    wish = rescuable(world.cluster, world.reservations, (), stuck, policy, ALLOW_ALL_MAPS)

    assert wish is not None
    assert (wish.move, wish.wanted.gpu_requests) == (MigrationKind.RESCUE, {GPU: 1})


def test_minimum_tier_applies_to_memory_requests() -> None:
    low = wants("5Gi", annotations={well_known.MEMORY_FLOOR: "16Gi"})

    assert given(World(EVERYTHING).ask(low)) == ["1g.20gb"]
    assert MIG_1G in EVERYTHING.allocatable


SIDECAR = container("gke-gcsfuse-sidecar", requests={"cpu": "250m"})


@pytest.mark.parametrize(
    ("containers", "annotations", "amount", "taker", "is_warned"),
    [
        pytest.param(
            [container("x"), container("train")],
            {well_known.DEFAULT_CONTAINER: "train"},
            "16Gi",
            "train",
            False,
            id="default-container",
        ),
        pytest.param(
            [SIDECAR, container("train")], {}, "16Gi", "train", False, id="a-known-injector"
        ),
        pytest.param(
            [container("x"), container("train")], {}, "16Gi", "x", True, id="an-unknown-one"
        ),
        pytest.param(
            [container("x"), container("train")], {}, "train=16Gi", "train", False, id="by-name"
        ),
        pytest.param(
            [SIDECAR, container("train")],
            {},
            "gke-gcsfuse-sidecar=16Gi",
            "gke-gcsfuse-sidecar",
            False,
            id="the-author-says-so",
        ),
    ],
)
def test_memory_device_goes_to_the_container_of_the_author(
    containers: list[Any], annotations: dict[str, str], amount: str, taker: str, is_warned: bool
) -> None:
    admission = World(EVERYTHING).ask(wants(amount, containers=containers, annotations=annotations))

    assert [one.container for one in admission.answer.rewrites] == [taker]
    assert bool(admission.answer.warnings) is is_warned


def test_guessed_container_is_reported_with_the_explicit_form() -> None:
    several = [container(name) for name in ("a", "b", "c", "d", "e")]

    assert World(EVERYTHING).ask(wants("16Gi", containers=several)).answer.warnings == (
        "gpu-scheduler.io/gpu-memory: no container is named, so a gets the GPU as the first of"
        " a, b, c, d, 1 more; write a=16Gi, or set kubectl.kubernetes.io/default-container",
    )
