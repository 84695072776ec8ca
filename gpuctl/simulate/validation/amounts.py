"""The requests and limits of a container, as the API server checks them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpuctl.simulate.manifests import Raw, object_of
from gpuctl.simulate.validation import names
from gpuctl.simulate.validation.problem import Problem
from scheduler.model.quantity import QuantityError, nano_value

_NANO: Final = 10**9


def problems(held: Raw, path: str) -> Iterator[Problem]:
    """Those of the resources at ``path``."""
    limits, requests = (object_of(held.get(side)) for side in ("limits", "requests"))
    for side, amounts in (("limits", limits), ("requests", requests)):
        for resource, amount in amounts.items():
            yield from _amount(resource, amount, f"{path}.{side}[{resource}]")
    for resource, amount in requests.items():
        yield from _pair(resource, amount, limits.get(resource), path)


def _amount(resource: str, amount: object, path: str) -> Iterator[Problem]:
    name = names.resource_problem(resource)
    if name is not None:
        yield Problem(path, name)
    nano = _nano(amount)
    if nano is not None and nano % _NANO and names.is_counted(resource):
        yield Problem(path, f"{amount} is not a whole number")


def _pair(resource: str, amount: object, limit: object, path: str) -> Iterator[Problem]:
    is_exact = not names.is_overcommitted(resource)
    if limit is None:
        if is_exact:
            yield Problem(
                f"{path}.limits", f"{resource} needs a limit equal to its request of {amount}"
            )
        return
    asked, most = _nano(amount), _nano(limit)
    if asked is None or most is None:
        return
    if is_exact and asked != most:
        yield Problem(
            f"{path}.requests", f"{resource}: {amount} is not equal to its limit of {limit}"
        )
    elif asked > most:
        yield Problem(f"{path}.requests", f"{resource}: {amount} is above its limit of {limit}")


def _nano(amount: object) -> int | None:
    """None for what the decoders report."""
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        return None
    try:
        return nano_value(amount)
    except QuantityError:
        return None
