"""What one share of a device takes of its capacities.

Mirrors ``structured/internal/experimental/consumable_capacity.go`` with DRAFractionalCapacityRange.
Amounts are nano units, so nothing overflows; what Go cannot represent is refused all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.model.dra.amount import INT64_MAX, ONE, amount_text
from scheduler.model.dra.device import Capacity, RequestPolicy, ValidRange

_MILLI: Final = ONE // 1000
_INT64: Final = INT64_MAX // ONE

Amounts = Mapping[str, int]
#: What is wrong with a request that no device can meet.
Problem = str


def consumed_by(request: Amounts, capacities: Mapping[str, Capacity]) -> dict[str, int] | Problem:
    """What a request takes of each capacity of a device, whether or not the device has it free."""
    found: dict[str, int] = {}
    for name, capacity in capacities.items():
        amount = _consumed(request.get(name), capacity)
        if amount is None:
            asked = amount_text(request[name])
            return f"capacity {name}: {asked} cannot be represented in the range of the device"
        if amount < 0:
            return f"capacity {name}: {amount_text(amount)} is negative"
        found[name] = amount
    return found


def admits(consumed: Amounts, capacities: Mapping[str, Capacity], *in_use: Amounts) -> bool:
    """Whether a device has that much beside what is ``in_use``, and its policies allow it."""
    for name, capacity in capacities.items():
        amount = consumed[name]
        if _violates(amount, capacity.policy):
            return False
        if amount + sum(one.get(name, 0) for one in in_use) > capacity.value:
            return False
    return True


def _consumed(requested: int | None, capacity: Capacity) -> int | None:
    """The amount after rounding; None where Go cannot represent it."""
    policy = capacity.policy
    if requested is None:
        has_default = policy is not None and policy.default is not None
        return policy.default if policy is not None and has_default else capacity.value
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded(requested, policy.valid_range)
    return next((one for one in policy.valid_values if requested <= one), requested)


def _rounded(requested: int, valid: ValidRange) -> int | None:
    """The next step of a range; None where it is not a milli value, or beyond 64 bits."""
    assert valid.min is not None
    if requested < valid.min:
        return valid.min
    if not valid.step:
        return requested
    unit = _unit(valid)
    if unit == _MILLI and not _is_milli(requested):
        return None
    if requested > INT64_MAX and unit == ONE:
        return None
    low, step = _units(valid.min, unit), _units(valid.step, unit)
    steps = -((low - _units(requested, unit)) // step)
    result = low + step * steps
    return None if result > _INT64 else result * unit


def _violates(amount: int, policy: RequestPolicy | None) -> bool:
    if policy is None or amount == policy.default:
        return False
    if policy.valid_range is not None:
        return _is_outside(amount, policy.valid_range)
    return bool(policy.valid_values) and amount not in policy.valid_values


def _is_outside(amount: int, valid: ValidRange) -> bool:
    if valid.max is not None and amount > valid.max:
        return True
    if not valid.step:
        return False
    unit = _unit(valid)
    if unit == _MILLI and not _is_milli(amount):
        return True
    low = _units(valid.min or 0, unit)
    return (_units(amount, unit) - low) % _units(valid.step, unit) != 0


def _unit(valid: ValidRange) -> int:
    """The unit of the arithmetic: milli where every bound is one, else whole numbers."""
    bounds = (one for one in (valid.min, valid.max, valid.step) if one is not None)
    return _MILLI if all(map(_is_milli, bounds)) else ONE


def _is_milli(amount: int) -> bool:
    return amount % _MILLI == 0 and abs(amount // _MILLI) <= _INT64


def _units(amount: int, unit: int) -> int:
    """Rounded away from zero, as Go's ``Value()``."""
    return -(-amount // unit) if amount >= 0 else amount // unit
