"""Collects the facts about Dynamic Resource Allocation: drivers, classes and taint rules."""

from __future__ import annotations

from typing import Final

from gpuctl.doctor.api_types import ApiObject
from gpuctl.doctor.facts import Dra, Slice, TaintRules
from gpuctl.doctor.reader import Reader, or_none

_GROUP: Final = "/apis/resource.k8s.io"
#: The versions of DeviceTaintRules that the scheduler reads, as it tries them.
_RULES: Final = ("v1", "v1beta2", "v1alpha3")
#: Fields of a selector in Kubernetes 1.33 and 1.34 only.
_FORMER: Final = ("deviceClassName", "selectors")


async def dra(reader: Reader) -> Dra:
    """The drivers with slices, and the DeviceClasses."""
    slices = await or_none(reader.objects(f"{_GROUP}/v1/resourceslices"))
    if slices is None:
        return Dra(False)
    return Dra(
        True,
        tuple(Slice(each.spec["driver"], each.spec.get("nodeName", "")) for each in slices),
        await reader.names(f"{_GROUP}/v1/deviceclasses"),
    )


async def taint_rules(reader: Reader) -> TaintRules:
    """The newest version in which DeviceTaintRules are served, and the rules that are not read."""
    for version in _RULES:
        rules = await or_none(reader.objects(f"{_GROUP}/{version}/devicetaintrules"))
        if rules is not None:
            return TaintRules(version, tuple(one.metadata.name for one in rules if _is_former(one)))
    return TaintRules("")


def _is_former(rule: ApiObject) -> bool:
    selector = rule.spec.get("deviceSelector") or {}
    return any(selector.get(field) is not None for field in _FORMER)
