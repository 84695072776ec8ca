"""The DeviceClass of each extended resource (KEP-5004).

Every class has an implicit name, ``deviceclass.resource.kubernetes.io/<class>``, and may have
another one, its ``extendedResourceName``. Of several classes with one name the newest counts, then
the first by name (kube-scheduler: ``deviceclass/extendedresourcecache``).
"""

from __future__ import annotations

from scheduler.model import well_known
from scheduler.model.dra.device_class import DeviceClass


class ExtendedClasses:
    """Names of classes by extended resource; ``named`` are those with ``extendedResourceName``."""

    def __init__(self) -> None:
        #: Every extended resource that DRA may serve -> the name of its class.
        self.classes: dict[str, str] = {}
        self.named: dict[str, DeviceClass] = {}
        self._claimants: dict[str, dict[str, DeviceClass]] = {}

    def change(self, before: DeviceClass | None, after: DeviceClass | None) -> None:
        """A class changed; None where it was not there, or is gone."""
        if before is not None:
            self.classes.pop(well_known.DRA_PREFIX + before.name, None)
            self._leave(before)
        if after is not None and not after.unread:
            self.classes[well_known.DRA_PREFIX + after.name] = after.name
            if after.extended_resource:
                self._claimants.setdefault(after.extended_resource, {})[after.name] = after
                self._choose(after.extended_resource)

    def _leave(self, one: DeviceClass) -> None:
        claimants = self._claimants.get(one.extended_resource, {})
        if claimants.pop(one.name, None) is not None:
            self._choose(one.extended_resource)

    def _choose(self, resource: str) -> None:
        claimants = self._claimants[resource]
        if not claimants:
            del self._claimants[resource], self.named[resource], self.classes[resource]
            return
        newest = max(one.created for one in claimants.values())
        name = min(one.name for one in claimants.values() if one.created == newest)
        self.named[resource], self.classes[resource] = claimants[name], name
