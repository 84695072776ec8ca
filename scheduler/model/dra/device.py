"""A device of a ResourceSlice, as far as decisions read it (``resource.k8s.io/v1``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.model.cached import cached
from scheduler.model.dra.amount import amount_text
from scheduler.model.selector import Term, matches_any

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
EXISTS: Final = "Exists"


class DeviceId(NamedTuple):
    """The identity of a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Version(msgspec.Struct, frozen=True, gc=False):
    """An attribute that is a semantic version (semver 2.0.0)."""

    text: str


Scalar = int | bool | str | Version
#: The value of an attribute; a tuple is a list of one type (feature DRAListTypeAttributes).
AttributeValue = Scalar | tuple[Scalar, ...]


class DeviceTaint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a device; only the effects NoSchedule and NoExecute keep claims away."""

    key: str
    value: str = ""
    effect: str = ""


class DeviceToleration(msgspec.Struct, frozen=True, gc=False):
    """A toleration of a request; an allocation repeats it."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Whether it tolerates a taint (``resourceclaim.ToleratesTaint``)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == EXISTS


class NodeChoice(msgspec.Struct, frozen=True, gc=False):
    """The nodes that can use a device or the devices of a slice.

    ``terms`` is a node selector; None where there is none.
    """

    node_name: str = ""
    all_nodes: bool = False
    terms: tuple[Term, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self.node_name) or self.all_nodes or self.terms is not None

    def admits(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is one of them (``structured.NodeMatches``)."""
        if self.node_name:
            return self.node_name == node_name
        if self.all_nodes:
            return True
        return self.terms is not None and matches_any(self.terms, labels, node_name)


NO_NODE: Final = NodeChoice()


class CounterUse(msgspec.Struct, frozen=True):
    """What a device takes of one counter set, in nano units.

    Devices with ``groups`` share a counter set only if they have a group in common (feature
    DRADeviceCompatibilityGroups).
    """

    counter_set: str
    counters: dict[str, int] = {}
    groups: tuple[str, ...] = ()


class ValidRange(msgspec.Struct, frozen=True, gc=False):
    """The amounts from ``min`` to ``max`` in steps of ``step``, in nano units."""

    min: int | None = None
    max: int | None = None
    step: int | None = None


class RequestPolicy(msgspec.Struct, frozen=True, gc=False):
    """Which amounts of a capacity may be requested, in nano units; ``default`` where a request
    names none.
    """

    default: int | None = None
    valid_values: tuple[int, ...] = ()
    valid_range: ValidRange | None = None


class Capacity(msgspec.Struct, frozen=True, gc=False):
    """One capacity of a device, in nano units."""

    value: int
    policy: RequestPolicy | None = None


class Device(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One device.

    ``attributes`` and ``capacities`` have the keys of the slice: ``domain/name``, or ``name`` in
    the domain of the driver. ``nodes`` counts only in a slice with ``per_device_nodes``. ``taints``
    are those of the slice; the store adds those of DeviceTaintRules.
    """

    driver: str
    pool: str
    name: str
    attributes: dict[str, AttributeValue] = {}
    capacities: dict[str, Capacity] = {}
    consumes: tuple[CounterUse, ...] = ()
    nodes: NodeChoice = NO_NODE
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple: bool = False

    @cached
    def id(self) -> DeviceId:
        """Its identity in the cluster."""
        return DeviceId(self.driver, self.pool, self.name)

    @property
    def title(self) -> str:
        """The device in a sentence that is the same on each node: a pool is named like its node."""
        return f"{self.name} of driver {self.driver}"

    @cached
    def capacity(self) -> dict[str, str]:
        """The capacities as quantities, for selectors."""
        return {name: amount_text(one.value) for name, one in self.capacities.items()}

    @cached
    def has_plain_capacity(self) -> bool:
        """Whether a request without amounts can have the whole device."""
        return not self.allow_multiple and all(
            one.policy is None and one.value >= 0 for one in self.capacities.values()
        )

    def attribute(self, name: str) -> AttributeValue | None:
        """An attribute by its fully qualified name (``lookupStaticAttribute``)."""
        found = self.attributes.get(name)
        if found is None:
            domain, slash, rest = name.partition("/")
            if slash and domain == self.driver:
                found = self.attributes.get(rest)
        return found
