"""The bytes of ResourceQuotas -> quotas. Only GPU limits are stored: most quotas have none."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model import resources, well_known
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.quota import REQUESTS, Quota
from scheduler.model.selector import Requirement
from scheduler.state import event as ev
from scheduler.watch.decode.api_types import Amounts, Meta
from scheduler.watch.decode.unreadable import identity, problem_text


class _Scope(msgspec.Struct, frozen=True, rename="camel"):
    """One comparison of a scope selector."""

    scope_name: str
    operator: str = "Exists"
    values: tuple[str, ...] | None = None


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    """The expressions of a scope selector; all must match."""

    match_expressions: tuple[_Scope, ...] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """Limits, and the pods to which they apply."""

    hard: Amounts | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: _Selector | None = None


class _Status(msgspec.Struct, frozen=True):
    """The used amounts."""

    used: Amounts | None = None


class QuotaWire(msgspec.Struct, frozen=True):
    """The fields of a ResourceQuota that are read."""

    metadata: Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


QUOTA = msgspec.json.Decoder(QuotaWire)


def to_quota(wire: QuotaWire) -> Quota:
    """A Quota of the model; without ``hard`` if it limits no GPUs."""
    spec, meta = wire.spec, wire.metadata
    selector = spec.scope_selector.match_expressions if spec.scope_selector else None
    return Quota(
        namespace=meta.namespace,
        name=meta.name,
        hard=_gpus(spec.hard),
        used=_gpus(wire.status.used),
        scopes=(
            *(Requirement(scope, "Exists") for scope in spec.scopes or ()),
            *(Requirement(s.scope_name, s.operator, s.values or ()) for s in selector or ()),
        ),
    )


def quota_event(content: bytes, is_gone: bool) -> ev.Event:
    """The event of a watch line."""
    if is_gone:
        namespace, name, _ = identity(content)
        return ev.QuotaUpdated(Quota(namespace=namespace, name=name))
    return ev.QuotaUpdated(_read(content))


def quotas_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The event of a list."""
    found = (_read(item) for item in items)
    return ev.QuotasReplaced(tuple(quota for quota in found if quota.hard or quota.unread))


def _read(content: bytes | msgspec.Raw) -> Quota:
    try:
        return to_quota(QUOTA.decode(content))
    except UNREADABLE as problem:
        namespace, name, _ = identity(bytes(content))
        return Quota(namespace=namespace, name=name, unread=problem_text(problem))


def _gpus(amounts: Amounts | None) -> dict[str, int]:
    """The GPU limits, by the resource's own name."""
    own = {
        key.removeprefix(REQUESTS): amount
        for key, amount in (amounts or {}).items()
        if key.startswith(REQUESTS)
    }
    return resources.amounts({r: own[r] for r in own if well_known.is_gpu_device(r)})
