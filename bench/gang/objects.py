"""The objects of a round: nodes in racks, and the members of groups, of ours and of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bench.load import Request, pod
from scheduler.model import well_known
from tools.controlplane import FakeNode

#: The name of every group; each one has a namespace of its own.
NAME: Final = "train"
HOSTNAME: Final = "kubernetes.io/hostname"
RACK: Final = "example.com/rack"
GPUS: Final = 8
RACKS: Final = 20
#: The annotation with the label whose domains a group prefers to share.
PREFERRED: Final = "gpu-scheduler.io/topology-preferred"
API: Final = "/apis/scheduling.k8s.io/v1beta1"


def rack_of(number: int) -> str:
    """The rack of a node. Neighbours in the order of the names are in different racks, so that a
    scheduler which takes the nodes by name does not find the racks by accident.
    """
    return f"rack-{number % RACKS:02}"


def nodes(count: int) -> Iterator[FakeNode]:
    """The nodes of the cluster."""
    for number in range(count):
        name = f"node-{number:05}"
        labels = {HOSTNAME: name, RACK: rack_of(number)}
        yield FakeNode(name=name, gpus=GPUS, labels=labels)


def groups_path(namespace: str) -> str:
    """The path of the PodGroups of Kubernetes."""
    return f"{API}/namespaces/{namespace}/podgroups"


def our_group(namespace: str, scheduler: str, size: int, topology: str = "") -> Iterator[Request]:
    """The members of a group that label and annotations mark."""
    marks = {well_known.GROUP_MIN: str(size)}
    if topology:
        marks[PREFERRED] = topology
    for number in range(size):
        yield _member(
            namespace,
            pod(f"{NAME}-{number}", scheduler),
            {"labels": {well_known.GROUP: NAME}, "annotations": marks},
        )


def kubernetes_group(namespace: str, scheduler: str, size: int) -> Iterator[Request]:
    """The PodGroup, and the members that name it."""
    policy = {"gang": {"minCount": size}}
    body = {"metadata": {"name": NAME}, "spec": {"schedulingPolicy": policy}}
    yield Request("POST", groups_path(namespace), body)
    for number in range(size):
        member = pod(f"{NAME}-{number}", scheduler)
        member["spec"]["schedulingGroup"] = {"podGroupName": NAME}
        yield _member(namespace, member, {})


def _member(namespace: str, body: dict[str, Any], metadata: Mapping[str, Any]) -> Request:
    body["metadata"] |= metadata
    return Request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
