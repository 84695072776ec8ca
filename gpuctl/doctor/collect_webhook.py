"""Collects the facts about the webhook: registration, certificate, and a dry-run creation."""

from __future__ import annotations

import time
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from gpuctl.doctor import api_types, certificate
from gpuctl.doctor.api_types import ApiObject
from gpuctl.doctor.facts import Aggregated, Certificate, Mutation, Unread, Webhook
from gpuctl.doctor.reader import ADMISSION, Reader, known, or_none
from scheduler.model import well_known
from scheduler.model.decisions.messages import API_SERVICE
from scheduler.watch.client import ApiError

FORBIDDEN: Final = 403
HTTPS: Final = 443


async def registration(reader: Reader, name: str) -> Webhook | None:
    """The MutatingWebhookConfiguration of this name, its endpoints and its certificate."""
    path = f"{ADMISSION}/mutatingwebhookconfigurations/{name}"
    configuration = await or_none(reader.get(path, ApiObject))
    if configuration is None:
        return None
    first = configuration.webhooks[0]["clientConfig"]
    service = first.get("service")
    return Webhook(
        entries=tuple(map(api_types.entry_of, configuration.webhooks)),
        ready=await known(_ready(reader, service)) if service else 0,
        certificate=await known(_certificate(reader, first)),
    )


async def _ready(reader: Reader, service: dict[str, str]) -> int:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{service['namespace']}/endpointslices"
    label = f"kubernetes.io/service-name={service['name']}"
    return api_types.ready_of(await reader.objects(path, labelSelector=label))


async def _certificate(reader: Reader, client: dict[str, Any]) -> Certificate | Unread:
    bundle = api_types.decoded(client.get("caBundle", ""))
    if service := client.get("service"):
        path = f"/api/v1/namespaces/{service['namespace']}/secrets/{service['name']}-tls"
        pem: bytes | Unread = api_types.decoded((await reader.get(path, ApiObject)).data["tls.crt"])
    else:
        address = urlsplit(client["url"])
        pem = await certificate.fetch(address.hostname or "", address.port or HTTPS)
    return pem if isinstance(pem, Unread) else certificate.check(pem, bundle)


async def aggregated(reader: Reader) -> Aggregated | None:
    """The APIService of the decisions API, and its Service's certificate; None if it is off."""
    path = f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}"
    found = await or_none(reader.get(path, ApiObject))
    if found is None:
        return None
    certificate = await known(_certificate(reader, found.spec))
    return msgspec.structs.replace(api_types.aggregated_of(found), certificate=certificate)


async def mutation(reader: Reader, namespace: str, scheduler: str) -> Mutation:
    """The mutation of a pod with a map, from a dry-run creation."""
    probe = {
        "metadata": {"name": "gpuctl-doctor-0", "annotations": {well_known.MAP: "0=nowhere:0"}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "probe", "image": "probe"}],
        },
    }
    started = time.monotonic()
    try:
        content = await reader.post(f"/api/v1/namespaces/{namespace}/pods", probe, dryRun="All")
    except ApiError as error:
        if error.status == FORBIDDEN and "cannot create resource" in error.message:
            raise
        return Mutation(False, time.monotonic() - started, error=error.message)
    took_s = time.monotonic() - started
    spec = msgspec.json.decode(content, type=ApiObject).spec
    env = {variable["name"] for variable in spec["containers"][0].get("env", ())}
    # A toleration has the fields of the taint that it tolerates.
    tolerated = tuple(str(api_types.taint_of(each)) for each in spec.get("tolerations", ()))
    return Mutation(well_known.CUDA_ENV in env, took_s, tolerated)
