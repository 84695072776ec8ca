"""Sequences come from their seeds alone, and their objects can be read by our decoders."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.watch.decode.objects import read_node, read_pod
from tests.differential import manifests
from tests.differential.generate.draws import Draws
from tests.differential.generate.kinds import KINDS
from tests.differential.sequence import Sequence, Workload


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


def test_match_label_keys_are_merged_into_the_selector() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["rev"]}
    spec = {"affinity": {"podAffinity": {"required": [term]}}}
    body = manifests.pod("p", Workload(namespace="red", labels={"rev": "1"}, spec=spec))
    [merged] = read_pod(msgspec.json.encode(manifests.admitted(body))).affinity.required
    [requirement] = merged.pods.selector.requirements or ()
    assert (requirement.key, requirement.operator, requirement.values) == ("rev", "NotIn", ("1",))
