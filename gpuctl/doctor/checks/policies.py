"""Checks the admission policies and the account's rights. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuctl.doctor.facts import Facts, Unread
from gpuctl.doctor.finding import Finding, fail, listed, ok, unread, warn
from gpuctl.doctor.rights import rights_of_moves, rights_of_preemption

POLICIES: Final = (
    "protected-annotations",
    "bindings",
    "fencing",
    "deletes",
    "status",
    "volumes",
    "claims",
    "claim-terms",
    "extended-resources",
    "partitions",
)
EVICTION: Final = "eviction"
#: Only where the account has the rights for preemption.
PREEMPTIONS: Final = "preemptions"


def on_guards(facts: Facts) -> Iterable[Finding]:
    """Findings about admission policies and roles."""
    yield _policies(facts)
    yield _forgery(facts)
    yield _rights(facts)
    yield _moves(facts)
    yield _preemption(facts)


def _policies(facts: Facts) -> Finding:
    found = facts.policies
    if isinstance(found, Unread):
        return unread("policies", found)
    advice = "admissionPolicies.* of the chart, unless this is intended"
    # Without preemption the chart renders no policy for it.
    expected = POLICIES if facts.missing_for_preemption else (*POLICIES, PREEMPTIONS)
    missing = [name for name in expected if not any(one.name.endswith(f"-{name}") for one in found)]
    if missing:
        says = f"no admission policy {listed(missing)}: accounts of devices could be forged"
        return warn("policies", says, advice)
    idle = [
        name
        for name in expected
        if not any(one.denies for one in found if one.name.endswith(f"-{name}"))
    ]
    if idle:
        says = f"no binding of the admission policy {listed(idle)} denies: it has no effect"
        return warn("policies", says, advice)
    return ok("policies", "the API server guards our annotations and fences former leaders")


def _forgery(facts: Facts) -> Finding:
    if isinstance(facts.refuses_forgery, Unread):
        return unread("forgery", facts.refuses_forgery)
    if not facts.refuses_forgery:
        says = "a pod with forged devices was accepted (dry run): it would hold them on its node"
        return warn("forgery", says, "admissionPolicies.protectedAnnotations of the chart")
    return ok("forgery", "a pod with forged devices is rejected (dry run)")


def _rights(facts: Facts) -> Finding:
    if isinstance(facts.missing_rights, Unread):
        return unread("roles", facts.missing_rights)
    if facts.missing_rights:
        missing = [str(right) for right in facts.missing_rights]
        return fail(
            "roles",
            f"{facts.account} may not {listed(missing)}",
            "rbac.create=true, or apply cluster/rbac.yaml; docs/security.md says what each is for",
        )
    return ok("roles", f"{facts.account} has every right that it needs")


def _moves(facts: Facts) -> Finding:
    missing = facts.missing_for_moves
    if isinstance(missing, Unread):
        return unread("moves", missing)
    if not missing:
        return ok("moves", f"{facts.account} may migrate pods to another MIG tier")
    # Preemption may read disruption budgets too.
    only_for_moves = {*rights_of_moves(facts.namespace)}.difference(rights_of_preemption())
    if only_for_moves <= {*missing}:
        return ok("moves", f"{facts.account} has no right to migrate pods: use restore.mode off")
    if all(right.subresource == EVICTION for right in missing):
        return ok("moves", f"{facts.account} may only report migrations: use restore.mode report")
    return warn(
        "moves",
        f"{facts.account} may not {listed([str(right) for right in missing])}",
        "apply cluster/rbac-migrations.yaml, or set restore.mode to off",
    )


def _preemption(facts: Facts) -> Finding:
    missing = facts.missing_for_preemption
    if isinstance(missing, Unread):
        return unread("preemption", missing)
    if missing:
        says = f"{facts.account} may not {listed([str(right) for right in missing])}"
        return ok("preemption", f"{says}: preemption.enabled is to be false")
    return ok("preemption", f"{facts.account} may preempt pods of lower priority")
