"""What is known of an object that cannot be read: its name, its node, and that the rest is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.state import event as ev
from scheduler.watch.decode import migrations, objects
from scheduler.watch.decode.quotas.resource_quotas import quota_event, quotas_listed
from scheduler.watch.decode.unreadable import NotAnObject
from tests.builders import ALLOW_ALL_MAPS, cluster, codes, node, pod, pod_json, refused

JSON = msgspec.json.encode


def with_requests(**fields: Any) -> bytes:
    body = pod_json("odd", **fields)
    body["spec"]["containers"][0]["resources"]["requests"] = {"cpu": ["2"]}
    return JSON(body)


def test_pod_with_unreadable_requests_keeps_other_fields() -> None:
    found = objects.read_pod(
        with_requests(
            node="n1", labels={"a": "b"}, owner="Job/j", annotations={well_known.MAP: "0=n1:0"}
        )
    )

    assert (found.key, found.node_name, found.labels) == ("team/odd", "n1", {"a": "b"})
    assert found.owner is not None
    assert found.map_text == "0=n1:0"
    assert "requests" in found.unread.requests
    assert found.requests == {}


@pytest.mark.parametrize("amount", ["-1", "many", "9" * 10_001], ids=["negative", "word", "long"])
def test_invalid_quantity_makes_requests_unknown(amount: str) -> None:
    found = objects.read_pod(JSON(pod_json("odd", requests={"cpu": amount})))

    assert found.unread.requests


def test_unreadable_status_makes_held_resources_unknown() -> None:
    body = pod_json("odd", node="n1", status={"containerStatuses": "none"})

    found = objects.read_pod(JSON(body))
    assert (found.node_name, bool(found.unread.requests), found.phase) == ("n1", True, "Pending")


def test_an_annotation_that_is_no_text_reads_as_an_empty_one() -> None:
    """Requests are still known; a pod that holds devices by it holds unknown ones."""
    body = pod_json("odd", gpus=1, annotations={"gpu-scheduler.io/decision": "d-1"})
    body["metadata"]["annotations"] |= {well_known.DEVICES: ["gpu:0"]}

    found = objects.read_pod(JSON(body))
    assert found.annotations == {well_known.DEVICES: "", well_known.DECISION: "d-1"}
    assert found.requests == {"nvidia.com/gpu": 1}
    assert (found.unread.requests, bool(found.unread.rest)) == ("", True)


def test_a_pod_that_cannot_be_read_is_refused_with_what_is_wrong() -> None:
    found = objects.read_pod(with_requests())

    said = refused(cluster(node()), found, ALLOW_ALL_MAPS).diagnosis.summary.message
    assert said.startswith("0/1 nodes are available: unreadable: Expected `int | float | str`")


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(node(gpus=4, with_gpu_indexes=True), id="numbered"),
        pytest.param(node(gpus=4), id="counted"),
        pytest.param(node(), id="without-gpus"),
        pytest.param(node(mig={"1g.10gb": 4}), id="static-mig"),
    ],
)
@pytest.mark.parametrize(
    "fields", [{"gpus": 1}, {"map": "0=n1:0"}, {"requests": {"cpu": "1"}}, {"mig": {"1g.10gb": 1}}]
)
def test_node_with_unknown_held_resources_takes_no_pod(there: Any, fields: Any) -> None:
    holder = objects.read_pod(with_requests(node="n1", scheduler="other"))

    found = codes(cluster(there, holder), pod("p-0", **fields))
    assert {code.name for code in found} <= {"NODE_UNREADABLE"}


def test_a_node_that_cannot_be_read_takes_no_pod() -> None:
    raw = JSON({"metadata": {"name": "n1", "uid": "u"}, "status": {"allocatable": {"cpu": {}}}})
    found = objects.read_node(raw)

    assert (found.name, found.allocatable, bool(found.unread)) == ("n1", {}, True)
    state = cluster(found)
    assert {code.name for code in codes(state, pod("p"))} == {"NODE_UNSCHEDULABLE"}
    tolerates = pod("p", tolerations=[{"operator": "Exists"}])
    assert {code.name for code in codes(state, tolerates)} == {"NODE_UNREADABLE"}


def test_a_namespace_that_cannot_be_read_allows_nothing() -> None:
    found = objects.read_namespace(JSON({"metadata": {"name": "team", "labels": {"a": 1}}}))

    assert (found.name, found.labels, bool(found.unread)) == ("team", {}, True)


def test_a_quota_that_cannot_be_read_limits_nothing_and_says_so() -> None:
    raw = JSON(
        {
            "metadata": {"name": "q", "namespace": "team"},
            "spec": {"hard": {"requests.nvidia.com/gpu": "many"}},
        }
    )

    seen = quota_event(raw, False)
    assert isinstance(seen, ev.QuotaUpdated)
    assert (seen.quota.hard, bool(seen.quota.unread)) == ({}, True)
    assert quotas_listed([msgspec.Raw(raw)]) == ev.QuotasReplaced((seen.quota,))


@pytest.mark.parametrize("read", [objects.read_pod, objects.read_node, objects.read_namespace])
@pytest.mark.parametrize(
    "content",
    [b"{}", b"7", b"[]", b'{"metadata":{}}', b'{"metadata":{"name":""}}', b"<html>", b"\xff"],
)
def test_object_without_name_is_ignored(read: Any, content: bytes) -> None:
    with pytest.raises(NotAnObject):
        read(content)


def test_a_pod_has_an_uid() -> None:
    with pytest.raises(NotAnObject):
        objects.read_pod(b'{"metadata":{"name":"a"},"spec":{}}')
    with pytest.raises(NotAnObject):
        objects.pod_event(b'{"metadata":{"name":"a"}}', True)


def test_a_ticket_that_cannot_be_read_is_named() -> None:
    found = migrations.migration_event(b'{"metadata":{"name":"t"},"spec":7}', is_gone=False)

    assert isinstance(found, ev.MigrationDeleted)
    assert found.unread is not None
    assert (found.unread.kind, found.unread.name) == ("podmigrations", "t")
