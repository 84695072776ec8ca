"""The MutatingWebhookConfiguration: the pods that the API server sends to the webhook.

Two entries, because a namespace is chosen by its labels (``namespaceSelector``) and a pod by its
fields (``matchConditions``); ``namespaceObject`` in a condition would be accepted and then fail
for every pod. kube-system and the webhook's own namespace are excluded, so that a failed webhook
never blocks its own pods, DNS or the network.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final, Literal

from scheduler.model import well_known

NAME: Final = "gpu-scheduler-webhook"
ENVIRONMENT_ENTRY: Final = "gpu-env-injector.gpu-scheduler.io"
FALLBACK_ENTRY: Final = "gpu-allocation.k8s.io"
#: One second for the scheduler's answer; the rest is for the connection.
TIMEOUT_S: Final = 2

_NAMESPACE: Final = "kubernetes.io/metadata.name"

Json = dict[str, Any]


def webhook_configuration(
    *,
    ca_bundle: bytes,
    scheduler_name: str,
    own_namespace: str,
    url: str | None = None,
    service: tuple[str, str] | None = None,
    scope: Literal["ours", "all"] = "ours",
    failure_policy: Literal["Ignore", "Fail"] = "Ignore",
) -> Json:
    """The object to create, with ``url`` (``https://host:port``) or ``service``.

    ``service`` is (namespace, name). Scope ``ours`` degrades pods of other schedulers only in
    namespaces with the label, ``all`` in every namespace.
    """
    assert (url is None) != (service is None), "a webhook is reached by a URL or by a Service"
    asks = [] if scope == "all" else [_labelled(well_known.FALLBACK_NAMESPACE, "In", "enabled")]
    entries: tuple[tuple[str, str, list[Json], list[Json]], ...] = (
        (ENVIRONMENT_ENTRY, "/mutate", [], [_is_ours(scheduler_name)]),
        (FALLBACK_ENTRY, "/mutate/fallback", asks, [_is_not_ours(scheduler_name), _ASKS_FOR_MIG]),
    )
    webhooks = [
        _shared(failure_policy)
        | {
            "name": name,
            "clientConfig": _client(path, url, service, ca_bundle),
            "namespaceSelector": {"matchExpressions": [*_everywhere(own_namespace), *selectors]},
            "matchConditions": conditions,
        }
        for name, path, selectors, conditions in entries
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": webhooks,
    }


def _shared(failure_policy: str) -> Json:
    return {
        "admissionReviewVersions": ["v1"],
        "failurePolicy": failure_policy,
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "IfNeeded",
        "rules": [_creation_of_pods()],
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": TIMEOUT_S,
    }


def _creation_of_pods() -> Json:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
        "scope": "Namespaced",
    }


def _client(path: str, url: str | None, service: tuple[str, str] | None, ca_bundle: bytes) -> Json:
    client: Json = {"caBundle": base64.b64encode(ca_bundle).decode("ascii")}
    if service is not None:
        namespace, name = service
        return client | {"service": {"namespace": namespace, "name": name, "path": path}}
    assert url is not None, "checked by the caller"
    return client | {"url": url.rstrip("/") + path}


def _everywhere(own_namespace: str) -> list[Json]:
    excluded = sorted({"kube-system", own_namespace})
    return [
        _labelled(_NAMESPACE, "NotIn", *excluded),
        _labelled(well_known.WEBHOOK_OPT_OUT, "NotIn", "disabled"),
    ]


def _labelled(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def _is_ours(scheduler_name: str) -> Json:
    return {
        "name": "pods-of-our-scheduler",
        "expression": f"{_SCHEDULER_NAME} == {json.dumps(scheduler_name)}",
    }


def _is_not_ours(scheduler_name: str) -> Json:
    return {
        "name": "pods-of-other-schedulers",
        "expression": f"{_SCHEDULER_NAME} != {json.dumps(scheduler_name)}",
    }


def _any_container(field: str) -> str:
    """CEL: some container below ``field`` names a MIG resource."""
    sides = " || ".join(
        f"(has(c.resources.{side}) && "
        f"c.resources.{side}.exists(r, r.startsWith('{well_known.MIG_PREFIX}')))"
        for side in ("limits", "requests")
    )
    return (
        f"(has(object.spec.{field}) && "
        f"object.spec.{field}.exists(c, has(c.resources) && ({sides})))"
    )


_SCHEDULER_NAME: Final = "object.spec.?schedulerName.orValue('')"
_ASKS_FOR_MIG: Final = {
    "name": "pods-that-ask-for-mig",
    "expression": " || ".join(map(_any_container, ("containers", "initContainers"))),
}
