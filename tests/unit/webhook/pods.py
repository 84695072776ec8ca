"""Builders of pods as the API server sends them to a webhook, and one way to review them."""

from __future__ import annotations

from typing import Any

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, NodeAssignment, ResourceRewrite, Scope
from tests.builders import API_GROUPS
from webhook.mutate.json_patch import apply
from webhook.mutate.pod_mutation import Config, Outcome, PodMutation, Request

Json = dict[str, Any]
CONFIG = Config(scheduler_name="gpu-scheduler")
MIG_1G = "nvidia.com/mig-1g.10gb"
MIG_2G = "nvidia.com/mig-2g.20gb"
MIG_3G = "nvidia.com/mig-3g.40gb"


def container(
    name: str = "app",
    limits: Json | None = None,
    requests: Json | None = None,
    **more: Any,
) -> Json:
    """A container; requests are those of the limits, as the API server defaults them."""
    resources: Json = {}
    if limits is not None:
        resources["limits"] = limits
    if limits is not None or requests is not None:
        resources["requests"] = dict(limits or {}) if requests is None else requests
    return {"name": name, "image": "registry.example/cuda:1", "resources": resources, **more}


def pod(
    *containers: Json,
    name: str = "w-0",
    map_text: str | None = None,
    annotations: Json | None = None,
    init: list[Json] | None = None,
    owner: str | None = None,
    labels: Json | None = None,
    **spec: Any,
) -> Json:
    """A pod of ours; without a name it has the generateName of a controller's pod."""
    metadata: Json = {"name": name} if name else {"generateName": "w-6bd69b846c-"}
    given = dict(annotations or {})
    if map_text is not None:
        given[well_known.MAP] = map_text
    if given:
        metadata["annotations"] = given
    if labels:
        metadata["labels"] = labels
    if owner:
        metadata["ownerReferences"] = [
            {
                "apiVersion": f"{API_GROUPS.get(owner, '')}/v1".removeprefix("/"),
                "kind": owner,
                "name": "w",
                "uid": "u",
                "controller": True,
            }
        ]
    body: Json = {"schedulerName": "gpu-scheduler", **spec}
    body["containers"] = list(containers) or [container()]
    if init:
        body["initContainers"] = init
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def gpus(count: int) -> Json:
    """Limits of some whole GPUs."""
    return {well_known.GPU: str(count)}


def answer(*, kinds: dict[str, Any] | None = None, **fields: Any) -> AdmissionDecision:
    """The scheduler's answer; kinds maps a node token to numbered, counted or unknown."""
    nodes = {token: NodeAssignment(token, kind) for token, kind in (kinds or {}).items()}
    listed: Json = {key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()}
    return AdmissionDecision(node_kinds=nodes, **listed)


def rewrite(
    source: str = MIG_2G, target: str = MIG_1G, container: str = "app", init: bool = False
) -> ResourceRewrite:
    """One container's rewrite to another tier."""
    return ResourceRewrite(container=container, source=source, target=target, init=init)


def run(
    body: Json,
    said: AdmissionDecision | None = None,
    scope: Scope = "ours",
    namespace: str = "default",
) -> Outcome:
    """Review a pod with the usual configuration."""
    return PodMutation(body, Request(namespace=namespace, scope=scope), CONFIG).outcome(said)


def patched(body: Json, said: AdmissionDecision | None = None, scope: Scope = "ours") -> Json:
    """The pod after a review that allowed it."""
    outcome = run(body, said, scope)
    assert outcome.denial is None, outcome.denial
    result: Json = apply(body, outcome.patch)
    return result


def resources(body: Json, position: int = 0) -> Any:
    """The resources of one container."""
    return body["spec"]["containers"][position]["resources"]


def environment(body: Json) -> dict[str, Any]:
    """What each container's CUDA_VISIBLE_DEVICES is: a text, ``@key`` of an annotation, or None."""
    listed = [*body["spec"].get("initContainers", ()), *body["spec"]["containers"]]
    return {item["name"]: _variable(item) for item in listed}


def _variable(item: Json) -> str | None:
    for entry in item.get("env") or ():
        if entry["name"] == well_known.CUDA_ENV:
            if "value" in entry:
                return str(entry["value"])
            path = str(entry["valueFrom"]["fieldRef"]["fieldPath"])
            prefix = f"metadata.annotations['{well_known.PREFIX}"
            assert path.startswith(prefix), path
            return "@" + path[len(prefix) : -2]
    return None
