"""Whatever a pod, a node or a namespace says, nothing of ours raises, hangs or grows by it.

Every name of ``model/well_known`` is given every hostile value in every place: a new name is
covered without a word here. Nothing is contained: the functions are called as they are, so that a
fault stays visible (what the loop does with one is the matter of
``tests/unit/loop/test_containment``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decide.admission.admit import Rules, admit, reserve, reserve_dry_run
from scheduler.decide.admission.fallback_policy import PolicyError, policy_of
from scheduler.decide.batch import plan_batch
from scheduler.decide.explain import explain
from scheduler.decide.migration import rescue, restore
from scheduler.decide.requeue_check import condition_at_node
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model import limits, well_known
from scheduler.model.admission import AdmissionDecision, NodeAssignment, Scope
from scheduler.model.crd.migration import match_of
from scheduler.model.gpu import cuda_env
from scheduler.model.mig.fallback_ladder import parse_ladder
from scheduler.model.pods.original_request import with_original_request
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.migration.history import MigrationHistory, Timings
from scheduler.state.migration.tickets import OpenMigrations
from scheduler.state.node_info import over_committed
from scheduler.state.reservations import Reservations
from scheduler.watch.decode import objects
from scheduler.watch.decode.quotas.resource_quotas import quota_event
from tests.builders import ALLOW_ALL_MAPS, Json, container, pod_json
from webhook.mutate.pod_mutation import Config, PodMutation, Request

DIGITS: Final = "9" * 5_000
INT64: Final = str(2**63 - 1)
DEPTH: Final = 10_000
RECORD: Final = '{"app":{"limits":{"nvidia.com/mig-2g.20gb":%s}}}'
#: What the webhook may write into one pod, in bytes.
PATCH_MAX: Final = 4 * limits.INJECTED_BYTES_MAX

TEXTS: Final = (
    *("\0", "\u202e1", "\u0663\u0663", INT64, DIGITS, "[" * DEPTH, "1," * DEPTH),
    # As each of them is written, with something in it that is too much.
    *(f"restore-{DIGITS}-0a3f", "restore-\u0663-0a3f", f"app={DIGITS}", f"1g.10gb@{DIGITS}/0"),
    *(f"0=n1:{DIGITS}", "0=n1:" + ",".join(map(str, range(DEPTH))), f"gpu:{DIGITS}"),
    *(f"{well_known.GPU_MEMORY}>={DIGITS}", "2g.20gb->" * DEPTH, f"2g.{DIGITS}gb->1g.10gb"),
    *(RECORD % one for one in ("[" * DEPTH, DIGITS, '"60000"', f'"{INT64}"')),
    "mig-configs: {a: [{devices: [0], mig-devices: {1g.10gb: 0x" + "f" * DEPTH + "}}]}",
    "mig-configs: {a: [{devices: all, mig-devices: {1g.10gb: 30000000}}]}",
)
#: In this order: where a guard is missing, the first ones show it and cost little.
AMOUNTS: Final = (
    *("300", "300000", "-5", "1e999999999", INT64, "-" + INT64, DIGITS, DIGITS + "Ki"),
    *("\0", "\u0663", "", "\u202e1", "1" + "0" * 400),
)
#: What JSON can have in place of a text.
VALUES: Final = (
    *(b"1", b"null", b"[]", b"{}", b"true", b"1e308", b"1e999", b"9" * 5_000, b'"\\u0000"'),
    *(b"[" * DEPTH + b"]" * DEPTH, b'{"a":' * DEPTH + b"1" + b"}" * DEPTH),
)


def _keys() -> tuple[str, ...]:
    """Every name: of an annotation, a label, a resource, a variable, or of something else."""
    found: dict[str, None] = {}
    for name, value in vars(well_known).items():
        if name.isupper() and not name.startswith("_"):
            found |= dict.fromkeys([value] if isinstance(value, str) else sorted(value))
    shares = (f"{well_known.CUDA_VISIBLE_DEVICES}.0", well_known.GPU + ".replicas")
    return (*found, *shares, well_known.MIG_PREFIX + "2g.20gb")


KEYS: Final = _keys()
#: None of ours is a resource; any other may be one.
RESOURCES: Final = tuple(key for key in KEYS if not key.startswith(well_known.PREFIX))
RULES: Final = Rules(pipeline=ALLOW_ALL_MAPS, ladders=(parse_ladder("2g.20gb->1g.20gb->1g.10gb"),))
MIG: Final = well_known.mig_resource("2g.20gb")
A100: Final = "NVIDIA-A100-SXM4-80GB"
#: One node of each kind: what is said to one of them is said to all.
KINDS: Final[dict[str, tuple[Json, Json]]] = {
    "numbered": ({well_known.NUMBERED: "numbered"}, {well_known.GPU: "2"}),
    "counted": ({}, {well_known.GPU: "2"}),
    "static": (
        {well_known.GPU_PRODUCT: A100, well_known.MIG_STRATEGY: "mixed"},
        {MIG: "2", well_known.mig_resource("1g.10gb"): "2"},
    ),
    "dynamic": (
        {well_known.MIG_DYNAMIC: "true", well_known.GPU_PRODUCT: A100, well_known.GPU_COUNT: "2"},
        {},
    ),
}  # fmt: skip
#: A degraded pod, as our own webhook leaves it.
DEGRADED: Final = {
    well_known.ORIGINAL: RECORD % '"1"',
    well_known.FALLBACK: "2g.20gb->1g.10gb",
}


# --- the world ----------------------------------------------------------------------------------


def node_json(kind: str, said: Json, offered: Json) -> Json:
    labels, offers = KINDS[kind]
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "99", **offers, **offered}
    return {
        "metadata": {
            "name": kind,
            "uid": kind,
            "labels": {**labels, **said},
            "annotations": dict(said),
        },
        "status": {"allocatable": allocatable},
    }


def pods(said: Json, amounts: Json, env: list[Json]) -> Iterator[Json]:
    """Pods that wait or run, ours and another's, packed, mapped and degraded, all saying this."""
    slices = {well_known.mig_resource("1g.10gb"): "1"}
    on_map, bound = {well_known.MAP: "0=numbered:0\n1=counted:0"}, {well_known.DECISION: "d-1"}
    local = {**on_map, well_known.CUDA_MODE: "local"}
    shapes: list[tuple[str, str, str, Json, Json]] = [
        ("whole-0", "", "", {}, {well_known.GPU: "1"}),
        ("web-x", "", "Deployment/web@r1", {}, {MIG: "1"}),
        ("mapped-0", "", "", on_map, {}),
        ("local-7", "", "", local, {well_known.GPU: "1"}),
        ("on-numbered", "numbered", "", bound, {well_known.GPU: "1"}),
        ("mapped-1", "counted", "", {**on_map, **bound}, {}),
        ("web-y", "static", "Deployment/web@r1", {**bound, **DEGRADED}, slices),
        ("web-z", "dynamic", "StatefulSet/web", {**bound, **DEGRADED}, slices),
    ]
    for name, at, owner, written, requests in shapes:
        asked = container(requests={**requests, **amounts}, env=env)
        given = {**written, **said}
        yield pod_json(
            name, node=at, owner=owner, labels=said, annotations=given, containers=[asked]
        )
    asked = container(requests={well_known.GPU: "1", **amounts}, env=env)
    yield pod_json("other-0", scheduler="other", annotations=said, containers=[asked])


class Home:
    """A cluster of every kind of node, in which one object after the other is tried."""

    def __init__(self, said: Json | None = None, offered: Json | None = None) -> None:
        self.cluster = Cluster()
        self.reservations = Reservations()
        self.history = MigrationHistory(Timings())
        self.tickets = OpenMigrations()
        for kind in KINDS:
            raw = msgspec.json.encode(node_json(kind, said or {}, offered or {}))
            found = objects.read_node(raw)
            indexes = len(found.indexes)
            assert indexes <= limits.NODE_GPUS_MAX
            self.cluster.upsert_node(found)

    def live(self, body: Json) -> Pod:
        """A pod's whole life: decoded, watched, decided, bound, admitted, migrated, recorded."""
        pod = objects.read_pod(msgspec.json.encode(body))
        self.cluster.upsert_pod(pod)
        self.reservations.handle(ev.PodUpdated(pod), 1.0)
        instances = len(instance_search.wanted(pod))
        assert instances <= 2 * limits.POD_DEVICES_MAX
        self._decided(pod)
        self._moved(pod)
        self._admitted(
            body, pod, "ours" if pod.scheduler_name == well_known.SCHEDULER_NAME else "any"
        )
        for name in {pod.node_name} & KINDS.keys():
            over_committed(self.cluster.nodes.node_info[name])
        self.cluster.indexes_held(pod)
        self.cluster.delete_pod(pod.uid)
        self.reservations.handle(ev.PodDeleted(pod.uid), 1.0)
        return pod

    def admit(self, body: Json) -> None:
        """What one pod gets at its admission."""
        self._admitted(body, objects.read_pod(msgspec.json.encode(body)), "ours")

    def _decided(self, pod: Pod) -> None:
        if pod.node_name:
            return
        decision = schedule_one(self.cluster, pod, ALLOW_ALL_MAPS)
        explain(decision)
        if isinstance(decision, Placement):
            cuda_env.environment(pod, decision.devices)
        plan_batch(self.cluster, [pod, pod], ALLOW_ALL_MAPS)
        condition_at_node(self.cluster, ALLOW_ALL_MAPS, pod, "dynamic")

    def _moved(self, pod: Pod) -> None:
        self.history.recall(pod)
        self.history.note_crashes(pod)
        self.history.blocker(pod, 1.0)
        self.tickets.upsert_pod(pod)
        match_of(pod)
        with_original_request(pod)
        restore.group_key(self.cluster.topology, pod)
        restore.restorable(self.cluster, self.reservations, (), pod, ALLOW_ALL_MAPS)
        try:
            terms, _ = policy_of(
                self.cluster, rescue.as_recreated(pod), RULES.ladders, (), frozenset()
            )
        except PolicyError:
            return
        rescue.rescuable(self.cluster, self.reservations, (), pod, terms, ALLOW_ALL_MAPS)

    def _admitted(self, body: Json, pod: Pod, scope: Scope) -> None:
        admission = admit(self.cluster, self.reservations, (), pod, scope, RULES)
        if admission.is_reserved:
            reserve_dry_run(self.reservations, admission, "r-0", 1.0)
            reserve(self.reservations, admission, "r-1", 1.0)
            self.reservations.end(pod.uid)
            self.reservations.expire(100.0)
        kinds = {"numbered": NodeAssignment("numbered", "numbered")}
        for answer in (AdmissionDecision(node_kinds=kinds), admission.answer):
            case = PodMutation(body, Request(namespace="team", scope=scope), Config())
            patch = case.outcome(answer).patch
            size = len(msgspec.json.encode(patch))
            assert size <= PATCH_MAX


#: What a node is asked by: one of each way to take a device.
NEIGHBOURS: Final = tuple(pods({}, {}, []))[:5]


# --- the properties -----------------------------------------------------------------------------


def test_every_known_name_is_fuzzed() -> None:
    """By the sources: what this module does not find, it does not try."""
    constants = {
        name: value
        for name, value in vars(well_known).items()
        if name.isupper() and not name.startswith("_")
    }
    listed = {value for value in constants.values() if isinstance(value, str)}
    listed |= {one for value in constants.values() if isinstance(value, tuple) for one in value}
    assert listed <= set(KEYS)
    assert {
        well_known.MIGRATION,
        well_known.TIER_NODES,
        well_known.ORIGINAL,
        well_known.UNUSABLE_DEVICES,
    } <= listed


@pytest.mark.parametrize("key", KEYS)
def test_pod_annotations_and_labels_never_crash(key: str) -> None:
    home = Home()
    for text in TEXTS:
        for body in pods({key: text}, {}, []):
            home.live(body)


@pytest.mark.parametrize("key", KEYS)
def test_node_annotations_and_labels_never_crash(key: str) -> None:
    for text in TEXTS:
        home = Home(said={key: text})
        for body in NEIGHBOURS:
            home.live(body)


@pytest.mark.parametrize("key", RESOURCES)
def test_pod_quantities_never_crash(key: str) -> None:
    home = Home()
    for amount in AMOUNTS:
        for body in pods({}, {key: amount}, []):
            home.live(body)


@pytest.mark.parametrize("key", RESOURCES)
def test_held_quantities_never_crash_the_next_decision(key: str) -> None:
    """Any user can set a pod's node name: neither scheduler nor kubelet checks it before."""
    for amount in AMOUNTS:
        home = Home()
        for body in pods({}, {key: amount}, []):
            home.cluster.upsert_pod(objects.read_pod(msgspec.json.encode(body)))
        for body in NEIGHBOURS[:4]:
            home.live(body)


@pytest.mark.parametrize("key", RESOURCES)
def test_node_quantities_never_crash(key: str) -> None:
    for amount in AMOUNTS:
        home = Home(offered={key: amount})
        for body in NEIGHBOURS:
            home.live(body)


def test_container_env_never_crashes() -> None:
    home = Home()
    for text in TEXTS:
        path = f"metadata.annotations['{well_known.CUDA_VISIBLE_DEVICES}{text}']"
        for entry in ({"value": text}, {"valueFrom": {"fieldRef": {"fieldPath": path}}}):
            for body in pods({}, {}, [{"name": well_known.CUDA_ENV, **entry}]):
                home.live(body)


def test_namespace_texts_never_crash() -> None:
    home = Home()
    bodies = list(pods({}, {}, []))
    for key, text in itertools.product(KEYS, TEXTS):
        said = {"metadata": {"name": "team", "labels": {key: text}, "annotations": {key: text}}}
        home.cluster.upsert_namespace(objects.read_namespace(msgspec.json.encode(said)))
        home.admit(bodies[1])


@pytest.mark.parametrize("name", ["whole-" + DIGITS, "w-" + INT64, "w-\u0663", "-", "w-00"])
def test_pod_names_never_crash(name: str) -> None:
    home = Home()
    for body in pods({}, {}, []):
        home.live({**body, "metadata": {**body["metadata"], "name": name}})


def test_quotas_never_crash() -> None:
    home = Home()
    for amount in AMOUNTS:
        hard = {"requests." + MIG: amount}
        body = {
            "metadata": {"namespace": "team", "name": "q"},
            "spec": {"hard": hard},
            "status": {"used": hard},
        }
        event = quota_event(msgspec.json.encode(body), False)
        assert isinstance(event, ev.QuotaUpdated)
        home.cluster.quotas.upsert(event.quota)
        for one in NEIGHBOURS:
            home.live(one)


PLACES: Final = (
    *("metadata.labels.K", "metadata.annotations.K", "metadata.deletionTimestamp"),
    *("metadata.ownerReferences", "metadata.managedFields", "metadata.labels"),
    *("spec.containers", "spec.priority", "spec.nodeSelector", "spec.affinity", "spec.overhead"),
    *("spec.resources", "spec.schedulingGates", "spec.tolerations", "spec.initContainers"),
    *("status.phase", "status.conditions", "status.containerStatuses", "status.allocatable"),
    *("status.allocatedResources", "spec.taints", "spec.unschedulable", "spec", "status"),
)


@pytest.mark.parametrize("place", PLACES)
def test_any_json_object_is_known_by_name(place: str) -> None:
    """It is seen with its name and its node, or as it is: it never ends what reads it."""
    pod = next(pods({}, {}, []))
    placed = {**pod, "spec": {**pod["spec"], "nodeName": "n7"}}
    for value in VALUES:
        for body, read in (
            (placed, objects.read_pod),
            (node_json("counted", {}, {}), objects.read_node),
        ):
            found = read(_with(body, place.split("."), value))
            assert found.name == body["metadata"]["name"]
            if isinstance(found, Pod) and place != "spec":
                assert found.node_name == "n7"


def _with(body: Json, path: list[str], value: bytes) -> bytes:
    """The object as JSON, with the value at a path."""
    changed = msgspec.json.decode(msgspec.json.encode(body))
    at: Any = changed
    for step in path[:-1]:
        at = at.setdefault(step, {})
    at[path[-1]] = "HERE"
    return msgspec.json.encode(changed).replace(b'"HERE"', value)


@settings(max_examples=25)
@given(
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(TEXTS), max_size=6),
    st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(AMOUNTS), max_size=3),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(TEXTS), max_size=6),
    st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(AMOUNTS), max_size=3),
)
def test_combined_hostile_inputs_never_crash(
    said: Json, amounts: Json, of_nodes: Json, offered: Json
) -> None:
    home = Home(of_nodes, offered)
    for body in pods(said, amounts, []):
        home.live(body)
