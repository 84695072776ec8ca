"""Constraints on the attributes of the devices of one claim.

Mirrors ``matchAttributeConstraint`` and ``distinctAttributeConstraint`` of kube-scheduler's
structured allocator with lists (DRAListTypeAttributes): a single value is a list of one.
"""

from __future__ import annotations

from scheduler.model.dra.claim import Constraint
from scheduler.model.dra.device import AttributeValue, Device, Scalar

#: The values of an attribute with their type: True and 1 are different.
Values = frozenset[tuple[type, Scalar]]


def values_of(value: AttributeValue) -> Values:
    """The values of an attribute as a set."""
    every = value if isinstance(value, tuple) else (value,)
    return frozenset((type(one), one) for one in every)


class AttributeConstraint:
    """One constraint of a claim, with the devices that were added to it so far.

    Once it refuses a device, more devices never make it accept that one.
    """

    __slots__ = ("_added", "_is_match", "_name", "_requests", "text")

    def __init__(self, constraint: Constraint) -> None:
        self._requests = frozenset(constraint.requests)
        self._is_match = bool(constraint.match)
        self._name = constraint.match or constraint.distinct
        #: The values of each device; for a match, those that it has in common with all before it.
        self._added: list[Values] = []
        kind = "matchAttribute" if self._is_match else "distinctAttribute"
        self.text = f"{kind} {self._name}"

    def is_about(self, *names: str) -> bool:
        """Whether it is about a request; a subrequest has two names."""
        return not self._requests or not self._requests.isdisjoint(names)

    def add(self, device: Device) -> bool:
        """Add a device; False if it may not be added."""
        value = device.attribute(self._name)
        values = values_of(value) if value is not None else None
        if not values:
            return False
        if not self._is_match:
            if any(not values.isdisjoint(one) for one in self._added):
                return False
        elif self._added:
            values &= self._added[-1]
            if not values:
                return False
        self._added.append(values)
        return True

    def remove_last(self) -> None:
        """Remove the device that was added last."""
        self._added.pop()
