"""The holders of devices, and their values in the metrics."""

from __future__ import annotations

import json

import pytest

from fakegpu import pod_decode
from fakegpu.api_types import Seen
from fakegpu.controller.pods import Pods
from fakegpu.node.device_assignment import assign
from fakegpu.node.pod_devices import Need, PodUse
from fakegpu.node.utilization import parse_fraction, parse_utilization, utilization
from fakegpu.pod_decode import PodFacts
from fakegpu.topology.node_topology import Failure, Utilization
from scheduler.model.gpu.device import Devices, MigPlacement
from tests.unit.fakegpu.nodes import GPU, H200, fake, holders, slicing, use

FOUR = f"{H200}, gpuCount: 4"
MIG_1G = "nvidia.com/mig-1g.10gb"


@pytest.mark.contract("S1-39")
def test_the_first_free_gpus_go_to_the_oldest_pods() -> None:
    young, old = use("young", gpus=2, created="2026-01-02"), use("old", created="2026-01-01")

    found = assign(fake(FOUR), [young, old])

    assert holders(found) == ["old", "young", "young", ""]
    assert found.gpus[0].status.allocated_by.container == "c"


@pytest.mark.contract("S1-B5", "S1-B7")
def test_a_pod_keeps_its_device_whatever_comes_and_goes() -> None:
    before = assign(fake(FOUR), [use("a", created="1"), use("b", created="2")])

    after = assign(fake(FOUR), [use("b", created="2"), use("c", created="0")], before=before)

    assert holders(after) == ["c", "b", "", ""]


@pytest.mark.contract("S1-B11")
def test_scheduler_choice_precedes_order_and_agent_record_both() -> None:
    chosen = use("chosen", gpus=2, created="2", chosen=Devices(numbers=(0, 3)))
    found = assign(fake(FOUR), [use("first", created="1"), chosen])
    assert holders(found) == ["chosen", "first", "", "chosen"]

    seen = {("team", "chosen", "c"): [found.gpus[2].id, found.gpus[1].id]}
    found = assign(fake(FOUR), [use("first", created="1"), chosen], assigned=seen, before=found)
    assert holders(found) == ["first", "chosen", "chosen", ""]


@pytest.mark.contract("S1-B10")
def test_every_container_counts_and_instances_too() -> None:
    pod = use("p", needs=(Need("a", GPU, 1), Need("b", MIG_1G, 2)))
    half = "mig: {mig-configs: {selected: [{devices: [1], mig-devices: {1g.10gb: 7}}]}}"

    found = assign(fake(f"{H200}, gpuCount: 2, {half}"), [pod])

    assert found.gpus[0].status.allocated_by.container == "a"
    held = [one.status.allocated_by.container for one in found.gpus[1].instances]
    assert held == ["b", "b", "", "", "", "", ""]
    assert found.gpus[1].instances[0].status.pod_gpu_usage_status["uid-p"].fb_used == 10240


def test_an_instance_is_given_where_it_was_chosen() -> None:
    pool = f"{H200}, gpuCount: 1, mig: {{mig-devices: {{1g.10gb: 7}}}}"
    chosen = Devices(mig_placements=(MigPlacement(0, 5, "1g.10gb"),))

    found = assign(fake(pool), [use("p", resource=MIG_1G, chosen=chosen)])

    assert holders(found) == ["", "", "", "", "", "p", ""]


@pytest.mark.contract("S4-16")
def test_pods_share_a_sliced_gpu_each_with_its_part_of_the_memory() -> None:
    pods = [use(f"p{number}", created=str(number)) for number in range(8)]

    found = assign(fake(f"{H200}, gpuCount: 2", sharing=slicing(4)), pods)

    assert [len(gpu.status.held_by) for gpu in found.gpus] == [4, 4]
    used = [one.fb_used for gpu in found.gpus for one in gpu.status.pod_gpu_usage_status.values()]
    assert used == [71680 // 4] * 8


@pytest.mark.contract("S1-40")
def test_pods_that_share_by_reservation_are_shown_on_the_reserved_gpu() -> None:
    reservation = use("reservation", reservation=("runai-gpu-group=g", "uid-reservation"))
    one = use("one", gpus=0, shares=("runai-gpu-group=g",), fraction=0.5)
    other = use("other", gpus=0, shares=("runai-gpu-group=h",))

    found = assign(fake(FOUR), [one, reservation, other])

    status = found.gpus[0].status
    assert status.allocated_by.pod == "reservation"
    assert {uid: usage.fb_used for uid, usage in status.pod_gpu_usage_status.items()} == {
        "uid-one": 35840
    }


def test_failed_gpu_is_not_assigned_and_keeps_its_holder() -> None:
    before = assign(fake(FOUR), [use("a", created="1")])
    for failure in (Failure(xid=48), Failure(xid=79, off_bus=True)):
        broken = fake(FOUR, failures={0: failure})
        later = use("b", created="2")

        after = assign(broken, [use("a", created="1"), later], before=before)

        assert holders(after) == ["a", "b", "", ""]
        assert holders(assign(broken, [later])) == ["", "b", "", ""]


def test_more_pods_than_devices_get_what_there_is() -> None:
    found = assign(fake(f"{H200}, gpuCount: 1"), [use("a", gpus=3), use("b")])

    assert holders(found) == ["a"]


@pytest.mark.contract("S1-43", "S1-B3")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("15", (15, 15), id="one-number"),
        pytest.param("10-30", (10, 30), id="range"),
        pytest.param("10--30", (10, 30), id="two-dashes"),
        pytest.param("10-", (10, 10), id="no-end"),
        pytest.param("50%", (50, 50), id="per-cent"),
        pytest.param("0.5", (0, 0), id="a-part"),
        pytest.param("150", (100, 100), id="clamped"),
        pytest.param("10 - 30", (10, 30), id="blanks"),
        pytest.param("30-10", (10, 30), id="swapped"),
        pytest.param("80-999", (80, 100), id="end-clamped"),
        pytest.param("abc", None, id="words"),
        pytest.param("", None, id="empty"),
        pytest.param("-5", None, id="negative"),
        pytest.param("٣", None, id="digits-of-another-script"),
    ],
)
def test_a_utilization_is_read_as_the_seed_does_without_its_traps(
    text: str, wanted: tuple[int, int] | None
) -> None:
    found = parse_utilization(text)

    assert found == (Utilization(min=wanted[0], max=wanted[1]) if wanted else None)


@pytest.mark.contract("S1-42", "S1-55")
@pytest.mark.parametrize(
    ("phase", "name", "kind", "wanted"),
    [
        pytest.param("Pending", "p", "TrainingWorkload", (0, 0), id="not-running-yet"),
        pytest.param("Running", "runai-idle-gpu-1", "", (0, 0), id="idle-by-name"),
        pytest.param("Running", "p", "TrainingWorkload", (80, 100), id="training"),
        pytest.param("Running", "p", "InteractiveWorkload", (0, 0), id="interactive"),
        pytest.param("Running", "p", "", (100, 100), id="anything-else"),
        pytest.param("Running", "p", "InferenceWorkload", None, id="inference"),
        pytest.param("Running", "p", "DistributedWorkload", None, id="as-the-code-has-it"),
        pytest.param("Running", "p", "DistributedInferenceWorkload", None, id="as-documented"),
    ],
)
def test_how_busy_a_pod_is_unless_it_says_so(
    phase: str, name: str, kind: str, wanted: tuple[int, int] | None
) -> None:
    found = utilization(phase, name, {}, {"workloadKind": kind})

    assert found == (Utilization(min=wanted[0], max=wanted[1]) if wanted else None)


def test_what_a_running_pod_says_of_itself_goes_first() -> None:
    said = {"run.ai/simulated-gpu-utilization": "5"}

    found = utilization("Running", "p", said, {"workloadKind": "InferenceWorkload"})

    assert found == Utilization(min=5, max=5)


GROUPED = [
    pytest.param("train", (80, 100), id="train"),
    pytest.param("build", (0, 0), id="build"),
    pytest.param("interactive-preemptible", (0, 0), id="interactive-preemptible"),
    pytest.param("inference", None, id="inference"),
    pytest.param("something-else", (100, 100), id="anything-else"),
]


@pytest.mark.contract("S1-42", "S1-55")
@pytest.mark.parametrize(("priority", "wanted"), GROUPED)
def test_else_the_priority_of_its_pod_group_says_how_busy_it_is(
    priority: str, wanted: tuple[int, int] | None
) -> None:
    found = Pods()
    found.fold(Seen("u", PodFacts("n", use("p", group="team/g"))))

    assert found.fold_groups(Seen("team/g", priority)) == ["n"]
    (pod,) = found.on("n")
    assert pod.load == (Utilization(min=wanted[0], max=wanted[1]) if wanted else None)
    assert found.fold_groups(Seen("team/g", priority)) == []


@pytest.mark.contract("S1-B27")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0.5", 0.5), ("1", 1.0), ("-1", 1.0), ("3", 1.0), ("nan", 1.0), ("inf", 1.0), ("x", 1.0)],
)
def test_a_fraction_is_a_part_of_one(text: str, wanted: float) -> None:
    assert parse_fraction(text) == wanted


def read(spec: dict[str, object], **more: object) -> PodUse | None:
    meta = {"name": "p", "namespace": "team", "uid": "u", **more}
    body = {"metadata": meta, "spec": {"nodeName": "n", **spec}, "status": {"phase": "Running"}}
    _, found = pod_decode.pod("runai-reservation")(json.dumps(body).encode())
    return found.use if found else None


def container(name: str, count: int, **more: object) -> dict[str, object]:
    return {"name": name, "resources": {"limits": {GPU: str(count)}}, **more}


@pytest.mark.contract("S1-38", "S1-B10")
def test_init_containers_hold_only_what_no_other_container_gets_later() -> None:
    first = [container("init", 3), container("sidecar", 1, restartPolicy="Always")]

    found = read({"containers": [container("app", 1)], "initContainers": first})

    assert found is not None
    held = {need.container: need.count for need in found.needs}
    assert held == {"app": 1, "sidecar": 1, "init": 1}


@pytest.mark.contract("S1-7", "S1-42")
def test_a_pod_is_read_by_the_annotations_and_labels_of_the_seed() -> None:
    spec: dict[str, object] = {"containers": [container("c", 1)]}
    group = {"pod-group-name": "g"}

    plain = read(spec, annotations={"gpu-fraction": "0.25", **group})
    assert plain is not None
    assert (plain.fraction, plain.group) == (0.25, "team/g")
    for said in (
        {"annotations": {"run.ai/simulated-gpu-utilization": "10-30", **group}},
        {"annotations": group, "labels": {"workloadKind": "TrainingWorkload"}},
    ):
        busy = read(spec, **said)
        assert busy is not None
        assert busy.group == "", "what the pod says goes first"
    sharer = read(spec, annotations={"runai-gpu": "0"}, labels={"runai-gpu-group": "g"})
    assert sharer is not None
    assert sharer.shares == ("runai-gpu-group=g", "runai-gpu=0")
    held = {"run.ai/reserve_for_gpu_index": "GPU-1"}
    holder = read(spec, namespace="runai-reservation", annotations=held)
    assert holder is not None
    assert (holder.reservation, holder.marked) == (("runai-gpu=GPU-1", "u"), "GPU-1")


@pytest.mark.contract("S1-38")
def test_pods_without_devices_are_of_no_interest_and_sharers_are() -> None:
    plain: dict[str, object] = {"containers": [{"name": "c"}]}

    assert read(plain) is None
    shared = read(plain, labels={"runai-gpu-group": "g"})
    assert shared is not None
    assert shared.shares == ("runai-gpu-group=g",)
    reserved = read({"containers": [container("c", 1)]}, namespace="runai-reservation")
    assert reserved is not None
    assert (reserved.shares, reserved.reservation) == ((), ("u",))
