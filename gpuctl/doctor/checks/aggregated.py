"""Checks the APIService of the aggregated decisions API, which is off by default. Pure.

While it is not available, the discovery of the whole cluster is incomplete (docs/security.md), so
each of its problems is a failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuctl.doctor.facts import Aggregated, Certificate, Facts, Unread, Webhook
from gpuctl.doctor.finding import Finding, fail, ok, unread
from scheduler.model.decisions.messages import API_SERVICE

ABOUT: Final = "decisions API"
NO_SERVICE: Final = frozenset({"ServiceNotFound", "ServicePortError"})
NO_REPLICA: Final = frozenset({"EndpointsNotFound", "MissingEndpoints"})
#: The message of the condition may have an address for each attempt.
MESSAGE_CHARS_MAX: Final = 200


def on_aggregated(facts: Facts) -> Iterable[Finding]:
    """One line if there is an APIService."""
    found = facts.aggregated
    if isinstance(found, Unread):
        yield unread(ABOUT, found)
    elif found is not None:
        yield _wrong_service(found, facts.webhook) or _untrusted(found) or _available(found, facts)


def _wrong_service(found: Aggregated, webhook: Webhook | Unread | None) -> Finding | None:
    """A registration by URL has no Service to compare."""
    if not isinstance(webhook, Webhook):
        return None
    targets = {entry.target for entry in webhook.entries if entry.service}
    if not targets or found.target in targets:
        return None
    return fail(
        ABOUT,
        f"APIService {API_SERVICE} names the Service {found.target}, the webhook has "
        f"{', '.join(sorted(targets))}",
        "set decisionsApi.aggregated in one release only, and helm upgrade that one",
    )


def _untrusted(found: Aggregated) -> Finding | None:
    if not found.has_bundle:
        return fail(
            ABOUT,
            f"APIService {API_SERVICE} has no caBundle",
            "helm upgrade; with certManager look at the log of its cainjector",
        )
    issued = found.certificate
    if isinstance(issued, Certificate) and not issued.is_trusted:
        return fail(
            ABOUT,
            f"the caBundle of APIService {API_SERVICE} did not issue the certificate of "
            f"{found.service}",
            "helm upgrade, which renders the present authority",
        )
    if isinstance(issued, Certificate) and found.target not in issued.names:
        return fail(
            ABOUT,
            f"the certificate of {found.service} does not name {found.target}",
            "create a new one for the Service's name",
        )
    return None


def _available(found: Aggregated, facts: Facts) -> Finding:
    if found.is_available:
        return ok(ABOUT, f"APIService {API_SERVICE} is available, behind {found.service}")
    message = found.message[:MESSAGE_CHARS_MAX]
    why = f"{found.reason}: {message}" if found.reason else "not checked yet by the API server"
    return fail(
        ABOUT,
        f"APIService {API_SERVICE} is not available, so no deletion of a namespace ends ({why})",
        f"{_remedy(found, facts.namespace)}; until then kubectl delete apiservice {API_SERVICE}",
    )


def _remedy(found: Aggregated, namespace: str) -> str:
    if found.reason in NO_SERVICE:
        return "helm upgrade the release, which creates the Service"
    if found.reason in NO_REPLICA:
        return f"kubectl -n {namespace} get pods, and start a replica"
    return (
        "look at the webhook's log and for 'front proxy unknown' in the scheduler's, and at "
        "NetworkPolicies and firewalls towards port 8445"
    )
