"""Sequences come from their seeds alone, and their objects can be read by our decoders."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.watch.decode.objects import read_node, read_pod
from tests.differential import manifests
from tests.differential.generate.draws import Draws
from tests.differential.generate.kinds import KINDS
from tests.differential.generate.sources import IN_TREE
from tests.differential.sequence import DeleteObject, Sequence, SetObject, Workload


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_give_equal_sequences(kind: str) -> None:
    assert KINDS[kind](7) == KINDS[kind](7)
    assert KINDS[kind](7) != KINDS[kind](8)


@pytest.mark.parametrize("kind", KINDS)
def test_sequence_survives_its_json(kind: str) -> None:
    one = KINDS[kind](7)
    assert msgspec.json.decode(msgspec.json.encode(one), type=Sequence) == one


def test_draws_do_not_depend_on_the_python_version() -> None:
    draws = Draws("core 1")
    assert [draws.number(0, 99) for _ in range(5)] == [93, 11, 48, 84, 78]
    assert Draws("core 1").some("abcdef", 3) == ["a", "c", "f"]


@pytest.mark.parametrize("kind", KINDS)
def test_objects_of_sequences_are_readable(kind: str) -> None:
    for seed in range(1, 30):
        one = KINDS[kind](seed)
        pods = [
            read_pod(msgspec.json.encode(manifests.admitted(manifests.pod("p", workload))))
            for workload in one.workloads
        ]
        nodes = [read_node(msgspec.json.encode(manifests.node(form))) for form in one.nodes]
        assert [pod.problem for pod in pods if pod.problem or pod.unsupported] == []
        assert [node.unread for node in nodes if node.unread] == []


def test_sources_have_every_kind_of_volume() -> None:
    found: set[str] = set()
    for seed in range(1, 30):
        one = KINDS["sources"](seed)
        volumes = [volume for pod in one.workloads for volume in pod.spec.get("volumes", ())]
        found |= {f"pod: {field}" for volume in volumes for field in volume}
        for made in one.objects:
            spec = made.manifest.get("spec", {})
            if made.kind in ("persistentvolumes", "persistentvolumeclaims"):
                found |= {f"{made.kind}: {field}" for field in spec}
                found.add(f"{made.kind}: {spec.get('volumeMode')}")

    inline = (*IN_TREE, "iscsi", "rbd", "ephemeral", "persistentVolumeClaim")
    kept = (*IN_TREE, "csi", "nfs", "claimRef", "Block")
    assert {f"pod: {field}" for field in inline} <= found
    assert {f"persistentvolumes: {field}" for field in kept} <= found
    assert {f"persistentvolumeclaims: {field}" for field in ("volumeName", "Block")} <= found


def test_volume_that_is_kept_for_a_claim_has_no_uid_of_it() -> None:
    claim = {"namespace": "red", "name": "c1"}
    kept = {
        "metadata": {"name": "v"},
        "spec": {"claimRef": claim},
        "status": {"phase": "Available"},
    }
    bound = {**kept, "status": {"phase": "Bound"}}
    assert manifests.stored(kept)["spec"]["claimRef"] == claim
    assert manifests.stored(bound)["spec"]["claimRef"] == {**claim, "uid": "red/c1"}


def test_budgets_change_between_pods() -> None:
    steps = [step for seed in range(1, 10) for step in KINDS["preemption"](seed).steps]
    kinds = {type(step) for step in steps if getattr(step, "kind", "") == "poddisruptionbudgets"}
    assert kinds == {SetObject, DeleteObject}


def test_match_label_keys_are_merged_into_the_selector() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["rev"]}
    spec = {"affinity": {"podAffinity": {"required": [term]}}}
    body = manifests.pod("p", Workload(namespace="red", labels={"rev": "1"}, spec=spec))
    [merged] = read_pod(msgspec.json.encode(manifests.admitted(body))).affinity.required
    [requirement] = merged.pods.selector.requirements or ()
    assert (requirement.key, requirement.operator, requirement.values) == ("rev", "NotIn", ("1",))
