"""Nodes that have the pod's images: kube-scheduler's score, and what it decides for which pods."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.settings import Settings
from scheduler.model.node import Node
from scheduler.plugins import image_locality
from tests.builders import cluster, container, dynamic, node, placed, pod

MIB = 2**20
Json = dict[str, Any]


def having(name: str, *images: tuple[str, int], **fields: Any) -> Node:
    """A node with these images, in MiB."""
    status = [{"names": [image], "sizeBytes": size * MIB} for image, size in images]
    return node(name, images=status, **fields)


def app(*images: str, init: tuple[str, ...] = (), **fields: Any) -> Any:
    containers = [{**container(f"c{n}"), "image": image} for n, image in enumerate(images)]
    first = [{**container(f"i{n}"), "image": image} for n, image in enumerate(init)]
    if gpus := fields.pop("gpus", 0):
        containers[0] = {**container(gpus=gpus), "image": images[0]}
    return pod(containers=containers, init=first, **fields)


@pytest.mark.parametrize(
    ("wanted", "images", "score"),
    [
        pytest.param(app("a:1"), [("a:1", 1000)], 48, id="on-one-node-of-two"),
        pytest.param(app("a"), [("a:latest", 1000)], 48, id="no-tag-is-latest"),
        pytest.param(app("h:5000/a"), [("h:5000/a:latest", 1000)], 48, id="a-port-is-no-tag"),
        pytest.param(app("a:1"), [("a:1", 46)], 0, id="up-to-23-MiB"),
        pytest.param(app("a:1"), [("a:1", 9000)], 100, id="at-most-1000-MiB"),
        pytest.param(app("a:1", "b:1"), [("a:1", 1000)], 24, id="of-two-containers"),
        pytest.param(app("b:1", init=("a:1",)), [("a:1", 1000)], 24, id="init-containers-too"),
        pytest.param(app("a:1"), [("b:1", 1000)], 0, id="another-image"),
    ],
)
def test_score_is_that_of_kube_scheduler(wanted: Any, images: list[Any], score: int) -> None:
    state = cluster(having("n1", *images), node("n2"))

    found = image_locality.score(state, wanted, list(state.candidates()), Settings())

    assert found == [score, 0]


def test_image_volume_counts_as_an_image() -> None:
    volume: Json = {"name": "model", "image": {"reference": "weights:1"}}
    state = cluster(having("n1", ("weights:1", 1000)), node("n2"))
    wanted = app("a:1", spec={"volumes": [volume]})

    assert image_locality.score(state, wanted, list(state.candidates()), Settings()) == [24, 0]


def test_image_on_more_nodes_scores_more() -> None:
    state = cluster(*(having(name, ("a:1", 600)) for name in ("n1", "n2", "n3")), node("n4"))

    found = image_locality.score(state, app("a:1"), list(state.candidates()), Settings())

    assert found == [43, 43, 43, 0]


def test_images_decide_between_equal_nodes_for_a_gpu_pod() -> None:
    state = cluster(node("a", gpus=2), having("b", ("big:1", 1000), gpus=2))

    assert placed(state, app("big:1", gpus=1)).node_name == "b"
    assert placed(state, app("other:1", gpus=1)).node_name == "a"


def test_packing_comes_before_images_for_a_gpu_pod() -> None:
    state = cluster(node("tight", gpus=1), having("wide", ("big:1", 1000), gpus=2))

    assert placed(state, app("big:1", gpus=1)).node_name == "tight"


def test_images_decide_between_compared_nodes_of_a_gpu_pod() -> None:
    soft = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    spread = {"topologySpreadConstraints": [{**soft, "labelSelector": {"matchLabels": {"a": "b"}}}]}
    labels = {"zone": "z"}
    state = cluster(
        node("a", gpus=2, labels=labels), having("b", ("big:1", 1000), gpus=2, labels=labels)
    )

    assert placed(state, app("big:1", gpus=1, spec=spread)).node_name == "b"


def test_images_are_one_score_of_a_pod_without_gpus() -> None:
    busy = pod("x", node="b", requests={"cpu": "1"})
    state = cluster(node("a", cpu="8"), having("b", ("big:1", 1000), cpu="8"), busy)

    assert placed(state, app("big:1")).node_name == "b"
    assert placed(state, app("other:1")).node_name == "a"


def test_layout_of_mig_instances_does_not_depend_on_images() -> None:
    images = [{"names": ["registry.example/app:1"], "sizeBytes": 1000 * MIB}]
    state = cluster(dynamic("a"), dynamic("b", images=images))
    wanted = pod(mig={"1g.10gb": 1})

    assert image_locality.score(state, wanted, list(state.candidates()), Settings()) == [0, 48]
    assert placed(state, wanted).node_name == "a"


def test_images_of_a_node_follow_its_status() -> None:
    state = cluster(node("a", gpus=2), having("b", ("big:1", 1000), gpus=2))
    state.upsert_node(node("b", gpus=2))
    assert placed(state, app("big:1", gpus=1)).node_name == "a"

    state.upsert_node(having("c", ("big:1", 1000), gpus=2))
    assert placed(state, app("big:1", gpus=1)).node_name == "c"

    state.delete_node("c")
    assert placed(state, app("big:1", gpus=1)).node_name == "a"
