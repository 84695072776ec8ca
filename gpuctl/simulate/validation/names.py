"""Names of objects, containers and resources, by the rules of the API server."""

from __future__ import annotations

import re
from typing import Final

from scheduler.model.selector import is_label_key

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_PART: Final = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_PART}(?:\.{_PART})*")
_SUBDOMAIN_LENGTH_MAX: Final = 253
_HUGEPAGES: Final = "hugepages-"
_NATIVE: Final = "kubernetes.io/"
_QUOTA: Final = "requests."
_FOR_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})

LABEL_RULE: Final = "is not a name; write a-z, 0-9 and - (at most 63 characters)"
SUBDOMAIN_RULE: Final = "is not a name; write a-z, 0-9, - and ."


def is_dns_label(name: str) -> bool:
    """Whether the name may be that of a container or a volume (RFC 1123)."""
    return _LABEL.fullmatch(name) is not None


def is_dns_subdomain(name: str) -> bool:
    """Whether the name may be that of a pod (RFC 1123)."""
    return len(name) <= _SUBDOMAIN_LENGTH_MAX and _SUBDOMAIN.fullmatch(name) is not None


def is_overcommitted(resource: str) -> bool:
    """Whether the request of a container may be below its limit."""
    return _is_native(resource) and not resource.startswith(_HUGEPAGES)


def is_counted(resource: str) -> bool:
    """Whether an amount must be a whole number: an extended resource."""
    return not _is_native(resource)


def resource_problem(resource: str) -> str | None:
    """Why the name is none of a container's resources."""
    if not is_label_key(resource):
        return f"{resource!r} is not a name of a resource"
    if "/" not in resource:
        if resource in _FOR_CONTAINERS or resource.startswith(_HUGEPAGES):
            return None
        return f"{resource!r} must be cpu, memory, ephemeral-storage or a name with a domain"
    if not _is_native(resource) and not _is_extended(resource):
        return f"{resource!r} is not a name of an extended resource"
    return None


def _is_native(resource: str) -> bool:
    return "/" not in resource or _NATIVE in resource


def _is_extended(resource: str) -> bool:
    return not resource.startswith(_QUOTA) and is_label_key(f"{_QUOTA}{resource}")
