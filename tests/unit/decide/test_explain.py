"""Explanations of decisions: codes, advice, numbers, scores, and parsed messages."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.decide.explain import Note, Outcome, Refusal, explain, meanings
from scheduler.decide.rejection_message import Part, parts
from scheduler.decide.score_breakdown import NodeScore, Ranking, rank
from scheduler.framework.settings import Settings
from scheduler.model.node import Node
from scheduler.model.reasons.reason import ReasonCode, sentence
from scheduler.plugins import REASON_CODES, default_pipeline
from tests.builders import ALLOW_ALL_MAPS, GPU, PodFields, cluster, node, placed, pod, refused
from tests.reason_worlds import DECIDED, EXAMPLES, PIPELINES


@pytest.mark.parametrize("code", DECIDED, ids=lambda code: code.name)
def test_every_code_is_parsed_from_its_sentence_with_advice(code: ReasonCode) -> None:
    """The condition alone contains the next step."""
    objects, fields = EXAMPLES[code]
    name = "solo" if code is REASON_CODES["INDEX_UNKNOWN"] else "w-0"
    pipeline = PIPELINES.get(code, ALLOW_ALL_MAPS)
    diagnosis = refused(cluster(*objects), pod(name, **fields), pipeline).diagnosis

    told = parts(sentence(diagnosis))

    assert {part.code for part in told} == diagnosis.codes()
    assert sum(part.count for part in told) == len(
        [reason for reasons in diagnosis.nodes.values() for reason in reasons]
    )
    assert code.next_step
    assert code.stage


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("", (), id="nothing-said"),
        pytest.param(
            "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu (need 2; best node has"
            " 1 free).",
            (
                Part(1, "Too many pods", REASON_CODES["TOO_MANY_PODS"]),
                Part(
                    2,
                    "Insufficient cpu (need 2; best node has 1 free)",
                    REASON_CODES["INSUFFICIENT"],
                ),
            ),
            id="two-of-ours",
        ),
        pytest.param(
            "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No"
            " preemption victims found for incoming pod.",
            (Part(2, "Insufficient cpu", REASON_CODES["INSUFFICIENT"]),),
            id="kube-scheduler-adds-its-preemption",
        ),
        pytest.param(
            "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
            (Part(2, "node(s) had volume node affinity conflict", None),),
            id="foreign-text",
        ),
        pytest.param(
            "binding failed: no, really",
            (Part(0, "binding failed: no, really", None),),
            id="no-rejection-at-all",
        ),
        pytest.param(
            "0/1 nodes are available: MapChanged: container a was created with CUDA_VISIBLE_DEVICES"
            "=0,1 and gpu-scheduling-map now says 2; recreate the pod.",
            (
                Part(
                    0,
                    "MapChanged: container a was created with CUDA_VISIBLE_DEVICES=0,1 and"
                    " gpu-scheduling-map now says 2; recreate the pod",
                    REASON_CODES["MAP_CHANGED"],
                ),
            ),
            id="a-comma-inside-the-pods-own-reason",
        ),
    ],
)
def test_diagnosis_sentence_is_parsed_back(message: str, expected: tuple[Part, ...]) -> None:
    assert parts(message) == expected


def lacks(name: str, have: int) -> Refusal:
    return Refusal(
        node=name,
        stage="NodeResourcesFit",
        code="INSUFFICIENT",
        text=f"Insufficient nvidia.com/gpu (need 8; {have} free)",
        resource=GPU,
        need=8,
        have=have,
        is_final=True,
    )


def tainted(name: str) -> Refusal:
    return Refusal(
        node=name,
        stage="TaintToleration",
        code="TAINT",
        text="node(s) had untolerated taint {x: y}",
        is_final=True,
    )


def test_each_node_refusal_has_its_own_numbers() -> None:
    world = cluster(node("a", gpus=4), node("b", gpus=1, taints=["x=y:NoSchedule"]), node("c"))

    said = explain(refused(world, pod(gpus=8)))

    assert said.message == (
        "0/3 nodes are available: 1 node(s) had untolerated taint {x: y}, 2 Insufficient"
        " nvidia.com/gpu (need 8; best node has 4 free). can never be placed here: requests 8"
        " nvidia.com/gpu and the largest node here has 4."
    )
    assert said.total == 3
    assert said.refusals == (lacks("a", 4), tainted("b"), lacks("c", 0))
    assert not said.is_placed


def test_pod_level_reasons_name_no_node() -> None:
    said = explain(refused(cluster(node(), node("b")), pod("w-0", map="0=n9:0")))

    [only] = said.refusals
    assert (only.node, only.code, said.total) == ("", "MAP_NODE_UNKNOWN", 2)


def test_placement_lists_everything_the_pod_gets() -> None:
    world = cluster(node(gpus=4, with_gpu_indexes=True))

    said = explain(placed(world, pod("w-1", map="1=n1:3,2")))

    assert said == Outcome(
        node="n1",
        devices="gpu:3,2",
        index=1,
        cuda_visible_devices="3,2",
        notes=(
            Note(
                "EnvironmentNotSet",
                "CUDA_VISIBLE_DEVICES=3,2 was not set: the pod did not pass the webhook",
            ),
        ),
    )
    assert said.is_placed


def test_empty_fields_are_omitted() -> None:
    world = cluster(node(gpus=4))

    written = msgspec.json.encode(explain(placed(world, pod(gpus=1))))

    assert written == b'{"node":"n1","devices":"gpu x 1"}'


def test_codes_are_explained_once_and_unknown_ones_are_passed_over() -> None:
    known = meanings(["TAINT", "TAINT", "OF_A_NEWER_VERSION"])

    assert list(known) == ["TAINT"]
    assert known["TAINT"].helps == tuple(cause.value for cause in REASON_CODES["TAINT"].lifted_by)


APP_IMAGE = [{"names": ["registry.example/app:1"], "sizeBytes": 1000 * 2**20}]
ZONES = [{"weight": 7, "preference": {"matchExpressions": [{"key": "z", "operator": "Exists"}]}}]
LIKES_Z = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ZONES}}}


@pytest.mark.parametrize(
    ("nodes", "fields", "expected"),
    [
        pytest.param(
            [node("a", gpus=2), node("b", gpus=4)],
            {"gpus": 1},
            Ranking(
                NodeScore("a", 0, 1, 0, 32000), NodeScore("b", 0, 3, 0, 32000), "requested_left", 2
            ),
            id="the-tighter-one",
        ),
        pytest.param(
            [node("a", gpus=2), node("b", gpus=4, labels={"z": "1"})],
            {"gpus": 1, "spec": LIKES_Z},
            Ranking(
                NodeScore("b", -7, 3, 0, 32000), NodeScore("a", 0, 1, 0, 32000), "soft_penalty", 7
            ),
            id="the-liked-one-though-it-is-emptier",
        ),
        pytest.param(
            [node("a", gpus=2), node("b", gpus=2)],
            {"gpus": 1},
            Ranking(NodeScore("a", 0, 1, 0, 32000), NodeScore("b", 0, 1, 0, 32000), "name"),
            id="equals-by-name",
        ),
        pytest.param(
            [node("a", gpus=2), node("b", gpus=0)],
            {"gpus": 1},
            Ranking(NodeScore("a", 0, 1, 0, 32000)),
            id="no-runner-up",
        ),
        pytest.param(
            [node("a", gpus=2), node("b", gpus=2, cpu="8")],
            {"gpus": 1},
            Ranking(NodeScore("b", 0, 1, 0, 8000), NodeScore("a", 0, 1, 0, 32000),
                    "milli_cpu_left", 24000),
            id="by-cpu-where-the-rest-is-equal",
        ),
        pytest.param(
            [node("a", gpus=2), node("b", gpus=2, images=APP_IMAGE)],
            {"gpus": 1},
            Ranking(NodeScore("b", 0, 1, 0, 32000), NodeScore("a", 0, 1, 0, 32000), "images", -48),
            id="by-images-where-the-rest-is-equal",
        ),
        pytest.param(
            [node("a", cpu="8"), node("b")],
            {"requests": {"cpu": "1"}},
            Ranking(NodeScore("b", 0, 0, 0, 31000), NodeScore("a", 0, 0, 0, 7000), "comparison"),
            id="by-comparison-without-gpus",
        ),
    ],
)  # fmt: skip
def test_the_winner_and_the_runner_up(
    nodes: list[Node], fields: PodFields, expected: Ranking
) -> None:
    world = cluster(*nodes)

    assert rank(world, placed(world, pod(**fields)), ALLOW_ALL_MAPS) == expected


def test_when_spreading_the_emptiest_node_wins() -> None:
    world = cluster(node("a", gpus=2), node("b", gpus=4), node("c", gpus=3))
    spread = default_pipeline(Settings(placement="spread"))

    ranking = rank(world, placed(world, pod(gpus=1), spread), spread)

    assert ranking is not None
    assert ranking.runner_up is not None
    assert (ranking.winner.node, ranking.runner_up.node, ranking.margin) == ("b", "c", -1)


def test_mapped_pod_has_no_runner_up() -> None:
    world = cluster(node(gpus=2), node("b", gpus=2))

    assert rank(world, placed(world, pod("w-0", map="0=n1:0")), ALLOW_ALL_MAPS) is None
