"""Checks the webhook: registration, certificate, and a dry-run creation. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from gpuctl.doctor.checks.cluster import INSTALL
from gpuctl.doctor.facts import Certificate, Entry, Facts, Mutation, Unread, Webhook
from gpuctl.doctor.finding import Finding, fail, listed, ok, unread, warn

SOON = timedelta(days=7)
SLOW_S = 1.0


def on_webhook(facts: Facts) -> Iterable[Finding]:
    """Findings about the registration, the certificate and the dry-run creation."""
    webhook = facts.webhook
    if isinstance(webhook, Unread):
        yield unread("webhook", webhook)
    elif webhook is None:
        yield warn(
            "webhook",
            "not registered: no CUDA_VISIBLE_DEVICES is set, no MIG request steps down",
            INSTALL
            if facts.leader is None
            else "helm upgrade with webhook.enabled=true, unless this is intended",
        )
        return
    else:
        yield _registration(webhook, facts.namespace)
        yield _certificate(webhook, facts.now)
    yield _mutation(facts.mutation)


def _registration(webhook: Webhook, namespace: str) -> Finding:
    blind = [entry.name for entry in webhook.entries if not entry.has_bundle]
    if blind:
        return fail(
            "webhook",
            f"no caBundle: {listed(blind)}",
            "the scheduler (or cert-manager) writes it; look at its log for the reason",
        )
    service = next((entry.service for entry in webhook.entries if entry.service), "")
    if service and webhook.ready == 0:
        return fail(
            "webhook",
            f"Service {service} has no ready address",
            f"kubectl -n {namespace} get pods; kubectl -n {namespace} logs -l "
            "app.kubernetes.io/name=gpu-scheduler -c webhook",
        )
    strict = [entry.name for entry in webhook.entries if entry.failure_policy == "Fail"]
    if strict:
        return warn(
            "webhook",
            f"failurePolicy Fail: {listed(strict)}",
            "while it does not answer, no pod in its scope can be created; Ignore is the default",
        )
    if isinstance(webhook.ready, Unread):
        return unread("webhook", webhook.ready)
    reached = f"{webhook.ready} ready behind Service {service}" if service else "called by URL"
    return ok("webhook", f"registered with an authority, {reached}")


def _certificate(webhook: Webhook, now: datetime) -> Finding:
    found = webhook.certificate
    if isinstance(found, Unread):
        return unread("certificate", found)
    if not found.is_trusted:
        return fail(
            "certificate",
            "the registered caBundle did not issue it, so the API server refuses the webhook",
            "restart the scheduler (certificates.mode self), or register its authority",
        )
    if problem := _unnamed(webhook.entries, found):
        return fail("certificate", problem, "create a new one for the Service's name")
    return _lifetime(found, now)


def _lifetime(found: Certificate, now: datetime) -> Finding:
    if found.ends <= now:
        return fail(
            "certificate",
            f"expired at {found.ends:%Y-%m-%d %H:%M} UTC",
            "renew it: docs/troubleshooting.md",
        )
    if found.begins > now:
        return fail(
            "certificate", f"valid from {found.begins:%Y-%m-%d %H:%M} UTC", "set the clocks"
        )
    left = found.ends - now
    if left < SOON:
        return warn("certificate", f"expires in {left.days} days", "check why it was not renewed")
    return ok("certificate", f"issued by the registered authority, valid for {left.days} days")


def _unnamed(entries: tuple[Entry, ...], certificate: Certificate) -> str:
    missing = sorted({entry.target for entry in entries} - set(certificate.names))
    return f"it does not name {listed(missing)}" if missing else ""


def _mutation(found: Mutation | Unread) -> Finding:
    if isinstance(found, Unread):
        return unread("mutation", found)
    if found.error:
        return fail(
            "mutation",
            f"a pod was rejected: {found.error}",
            "check the webhook or policy in the message",
        )
    if not found.is_mutated:
        return fail(
            "mutation",
            f"a mapped pod was created unchanged (dry run, {found.took_s:.2f} s)",
            "the API server does not reach the webhook: look at its log for 'failed calling "
            "webhook', and at NetworkPolicies and firewalls towards port 8443",
        )
    if found.took_s > SLOW_S:
        return warn("mutation", f"works, in {found.took_s:.2f} s", "check its CPU limits")
    return ok(
        "mutation", f"a mapped pod got its environment (dry run, {found.took_s * 1e3:.0f} ms)"
    )
