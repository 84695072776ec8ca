"""Checks Dynamic Resource Allocation: drivers, classes, DeviceTaintRules and claims. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuctl.doctor.facts import Dra, Facts, Unread
from gpuctl.doctor.finding import Finding, fail, listed, ok, unread, warn

RULES: Final = "devicetaintrules"
#: From this version on API servers keep the fields of these features by default.
FIELDS: Final = (1, 36)


def on_dra(facts: Facts) -> Iterable[Finding]:
    """Findings about drivers, about taints of devices and about allocations."""
    dra = facts.dra
    if isinstance(dra, Unread):
        yield unread("dra", dra)
    elif not dra.is_served:
        yield ok("dra", "resource.k8s.io/v1 is not served; it is not needed")
    else:
        yield _drivers(dra)
        if not isinstance(facts.version, Unread) and facts.version < FIELDS:
            yield ok(
                "dra fields",
                "without feature gates this version (before 1.36) drops the fields for extended"
                " resources, MIG partitions, shared devices, taints and binding conditions",
            )
        yield _taint_rules(facts)
    yield from _excesses(facts)


def _drivers(dra: Dra) -> Finding:
    drivers = sorted({one.driver for one in dra.slices})
    if drivers and not dra.classes:
        return warn(
            "dra",
            f"devices of {listed(drivers)}, but no DeviceClass",
            "no claim can request them: install the driver's DeviceClass",
        )
    found = (
        f"drivers: {listed(drivers) or 'none'}; classes: {listed(sorted(dra.classes)) or 'none'}"
    )
    return ok("dra", f"resource.k8s.io/v1 is served; {found}")


def _taint_rules(facts: Facts) -> Finding:
    rules = facts.taint_rules
    if isinstance(rules, Unread):
        return unread("taint rules", rules)
    if not rules.version:
        return ok(
            "taint rules",
            "no DeviceTaintRules (Kubernetes 1.37): only drivers can taint devices",
        )
    missing = () if isinstance(facts.missing_rights, Unread) else facts.missing_rights
    if any(right.resource == RULES for right in missing):
        return warn(
            "taint rules",
            f"{facts.account} may not read DeviceTaintRules: pods get the devices that these taint",
            "apply cluster/rbac.yaml",
        )
    if rules.unread:
        return warn(
            "taint rules",
            f"not read, so pods get the devices that they taint: {listed(rules.unread)}",
            "select by driver, pool or device instead of deviceClassName or selectors",
        )
    return ok("taint rules", f"read from resource.k8s.io/{rules.version}")


def _excesses(facts: Facts) -> Iterable[Finding]:
    """What two schedulers allocated."""
    found = facts.excesses
    if isinstance(found, Unread):
        yield unread("claims", found)
    elif found:
        first = found[0]
        yield fail(
            "claims",
            f"allocated to several claims: {len(found)}, as {first.what} to {listed(first.claims)}",
            "delete the pods of one of the claims, and reserve the nodes for one scheduler"
            " (docs/dra.md)",
        )
