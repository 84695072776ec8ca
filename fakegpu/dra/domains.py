"""Compute domains: their templates, channels and readiness. Pure.

A domain has a claim template; a pod that uses it gets a channel of its node, and the nodes of its
claims are its members. There is no fabric: a channel is ``/dev/null``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fakegpu import names
from fakegpu.api_types import Meta
from fakegpu.dra import api_types

GROUP: Final = "/apis/resource.nvidia.com/v1beta1"
DOMAINS: Final = f"{GROUP}/computedomains"
TEMPLATES: Final = f"{api_types.GROUP}/resourceclaimtemplates"
FINALIZER: Final = "computedomain.resource.nvidia.com/finalizer"
#: Label of templates.
LABEL: Final = "resource.nvidia.com/computeDomain"
TARGET: Final = "resource.nvidia.com/computeDomainTarget"
#: Label of claims.
CLAIM_LABEL: Final = "nvidia.com/computeDomain"
CLASS: Final = "compute-domain-default-channel.nvidia.com"
CONFIG_VERSION: Final = "resource.nvidia.com/v1beta1"
CONFIG_KIND: Final = "ComputeDomainChannelConfig"
READY, NOT_READY = "Ready", "NotReady"

Json = dict[str, Any]


class DomainMeta(Meta, frozen=True, rename="camel"):
    """ObjectMeta with finalizers."""

    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None


class TemplateName(msgspec.Struct, frozen=True):
    """The template to create."""

    name: str


class Channel(msgspec.Struct, frozen=True, rename="camel"):
    """The channel section of the spec."""

    resource_claim_template: TemplateName
    allocation_mode: str = "Single"


class DomainSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec."""

    num_nodes: int
    channel: Channel


class Domain(msgspec.Struct, frozen=True):
    """A compute domain."""

    metadata: DomainMeta
    spec: DomainSpec
    status: Json | None = None

    @property
    def is_going(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def template_name(self) -> str:
        """Its template's name."""
        return self.spec.channel.resource_claim_template.name


_DOMAIN = msgspec.json.Decoder(Domain)


def domain(content: bytes) -> tuple[str, Domain | None]:
    """A domain by its uid."""
    found = _DOMAIN.decode(content)
    return found.metadata.uid, found


def channel_contents() -> tuple[Json, ...]:
    """The content of a node's slice of channels: one channel for all pods."""
    driver = names.DOMAIN_DRIVER
    attributes = {f"{driver}/type": {"string": "channel"}, f"{driver}/id": {"int": 0}}
    return ({"devices": [{"name": names.CHANNEL, "attributes": attributes}]},)


def template(one: Domain) -> Json:
    """The template with which pods request a channel of a domain; deleted with the domain."""
    meta = one.metadata
    owner = {"apiVersion": CONFIG_VERSION, "kind": "ComputeDomain", "name": meta.name}
    parameters = {
        "apiVersion": CONFIG_VERSION,
        "kind": CONFIG_KIND,
        "domainID": meta.uid,
        "allocationMode": one.spec.channel.allocation_mode,
    }
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1}
    opaque = {"driver": names.DOMAIN_DRIVER, "parameters": parameters}
    return {
        "apiVersion": api_types.API_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": one.template_name,
            "namespace": meta.namespace,
            "labels": {LABEL: meta.name, TARGET: "workload"},
            "ownerReferences": [{**owner, "uid": meta.uid, "controller": True}],
        },
        "spec": {
            "metadata": {"labels": {CLAIM_LABEL: meta.name}},
            "spec": {
                "devices": {
                    "requests": [{"name": "channel", "exactly": exactly}],
                    "config": [{"requests": ["channel"], "opaque": opaque}],
                }
            },
        },
    }


def status(one: Domain, nodes: Iterable[str]) -> Json:
    """The status of a domain with claims on these nodes."""
    members = [
        {"name": node, "cliqueID": "", "ipAddress": "", "index": index, "status": READY}
        for index, node in enumerate(sorted({*nodes}))
    ]
    is_ready = len(members) >= one.spec.num_nodes
    return {"status": READY if is_ready else NOT_READY, "nodes": members}
