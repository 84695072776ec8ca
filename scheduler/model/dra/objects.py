"""The objects of ``resource.k8s.io`` that the store of claims and devices holds."""

from __future__ import annotations

from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.device_class import DeviceClass
from scheduler.model.dra.resource_slice import DeviceTaintRule, ResourceSlice

DraObject = ResourceSlice | DeviceTaintRule | DeviceClass | ResourceClaim
