"""A tier's nodes and a memory request, written into the pod as the scheduler decided."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.admission import NOTHING, AdmissionDecision, ResourceRewrite
from scheduler.model.mig.tier_nodes import TierNodes
from scheduler.model.pods.original_request import unplaced, with_original_request
from scheduler.model.pods.pod import Pod
from scheduler.watch.decode.pods import POD, to_pod
from tests.unit.webhook.pods import (
    CONFIG,
    MIG_1G,
    MIG_2G,
    Json,
    answer,
    container,
    gpus,
    patched,
    pod,
    rewrite,
    run,
)
from webhook.mutate.pod_mutation import PodMutation, Request

A100 = TierNodes((("gpu-type", "a100"),))
LARGE = TierNodes(memory_mib=15000)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MEMORY = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["14999"]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


def degraded(where: TierNodes, **spec: Any) -> Json:
    """A pod that requested 2g and got 1g on some nodes."""
    said = answer(rewrites=[rewrite()], reservation="r-1", where=where)
    return patched(pod(container(limits={MIG_2G: "1"}), **spec), said)


def converted(body: Json) -> Pod:
    """The pod as the scheduler reads it."""
    return to_pod(POD.decode(msgspec.json.encode(body)), "default")


def affinity(*terms: Any) -> Json:
    """Required node affinity with these terms."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def test_labels_become_the_pods_node_selector_beside_its_own() -> None:
    body = degraded(A100, nodeSelector={"zone": "a"})

    assert body["spec"]["nodeSelector"] == {"zone": "a", "gpu-type": "a100"}
    assert body["metadata"]["annotations"][well_known.TIER_NODES] == "gpu-type=a100"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, affinity({"matchExpressions": [MEMORY]}), id="none-before"),
        pytest.param(
            affinity({"matchExpressions": [ZONE]}, {"matchFields": [ZONE]}),
            affinity(
                {"matchExpressions": [ZONE, MEMORY]},
                {"matchFields": [ZONE], "matchExpressions": [MEMORY]},
            ),
            id="in-every-term",
        ),
        pytest.param(
            affinity({}, {"matchExpressions": [ZONE]}),
            affinity({}, {"matchExpressions": [ZONE, MEMORY]}),
            id="an-empty-term-stays-empty",
        ),
        pytest.param(
            {"podAffinity": {"x": 1}, "nodeAffinity": {"preferred": []}},
            {
                "podAffinity": {"x": 1},
                "nodeAffinity": {
                    "preferred": [],
                    REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [MEMORY]}]},
                },
            },
            id="other-affinity-is-kept",
        ),
    ],
)
def test_memory_becomes_required_node_affinity(before: Json | None, after: Json) -> None:
    spec = {} if before is None else {"affinity": before}

    body = degraded(LARGE, **spec)

    assert body["spec"]["affinity"] == after
    assert body["metadata"]["annotations"][well_known.TIER_NODES] == "nvidia.com/gpu.memory>=15000"


def test_what_the_pod_asked_for_itself_is_not_recorded_as_ours() -> None:
    """Or its next admission would go without it."""
    body = degraded(A100, nodeSelector={"gpu-type": "a100"})

    assert body["spec"]["nodeSelector"] == {"gpu-type": "a100"}
    assert well_known.TIER_NODES not in body["metadata"]["annotations"]


@pytest.mark.parametrize("where", [A100, LARGE, TierNodes(A100.labels, 15000)])
def test_written_tier_nodes_match_the_decision_and_can_be_removed(where: TierNodes) -> None:
    """The scheduler's picture of the pod and the real one must not part."""
    bare = pod(container(limits={MIG_2G: "1"}), nodeSelector={"zone": "a"})
    asked: Pod = converted(bare)
    written = converted(degraded(where, nodeSelector={"zone": "a"}))
    decided = where.on(asked)

    assert decided is not None
    assert (written.node_selector, written.required_terms) == (
        decided.node_selector,
        decided.required_terms,
    )
    again = with_original_request(written)
    assert again is not None
    assert (again.node_selector, again.required_terms) == ({"zone": "a"}, None)
    assert again.gpu_requests == {MIG_2G: 1}
    assert well_known.TIER_NODES not in again.annotations


def wish(*containers: Json, amount: str = "16Gi", **more: Any) -> Json:
    """A pod with a GPU memory annotation only."""
    return pod(*containers, annotations={well_known.WANTED_MEMORY: amount}, **more)


def gives(target: str, where: TierNodes = TierNodes(), **fields: Any) -> AdmissionDecision:  # noqa: B008 - frozen
    """The scheduler's answer to a memory request."""
    added = ResourceRewrite(container="app", source=NOTHING, target=target)
    return answer(rewrites=[added], where=where, **fields)


def test_memory_request_becomes_one_device_of_its_container() -> None:
    body = patched(wish(container(limits={"cpu": "1"})), gives(MIG_1G, reservation="r-1"))

    resources = body["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"] == {"cpu": "1", MIG_1G: "1"}
    given = body["metadata"]["annotations"]
    assert given[well_known.MEMORY_GIVEN] == "app=1g.10gb"
    assert given[well_known.RESERVATION] == "r-1"
    assert well_known.FALLBACK not in given  # nothing was taken from it


def test_a_whole_gpu_is_bound_to_nodes_with_large_ones() -> None:
    body = patched(wish(), gives(well_known.GPU, LARGE))

    assert body["spec"]["containers"][0]["resources"]["limits"] == {well_known.GPU: "1"}
    assert (
        MEMORY
        in body["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0][
            "matchExpressions"
        ]
    )
    again = unplaced(converted(body))
    assert (again.gpu_requests, again.required_terms) == ({}, None)


def test_memory_request_is_translated_once() -> None:
    """With the same answer, with the one for a second call, and without any."""
    said = gives(MIG_1G, reservation="r-1")
    once = patched(wish(), said)

    known = answer(known_reservation=True, rewrites=list(said.rewrites), reservation="r-1")
    assert run(once, said).patch == ()
    assert run(once, known).patch == ()
    assert patched(once, None)["spec"] == once["spec"]


def test_scheduler_is_asked_only_about_pods_with_memory_requests() -> None:
    request = Request(namespace="n", scope="ours")

    assert PodMutation(wish(), request, CONFIG).needs_answer
    assert not PodMutation(pod(), request, CONFIG).needs_answer


def test_memory_request_is_kept_without_an_answer() -> None:
    """The scheduler does not place such a pod, and has it created again."""
    assert run(wish(), None).patch == ()


def test_denial_has_the_sentence_of_the_scheduler() -> None:
    outcome = run(wish(container(limits=gpus(1))), answer(denied="keep one of the two"))

    assert outcome.denial is not None
    assert outcome.denial.message == "keep one of the two"
