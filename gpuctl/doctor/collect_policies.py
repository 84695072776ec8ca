"""Collects the facts about admission policies: names, bindings, and a dry-run rejection."""

from __future__ import annotations

from typing import Any, Final

from gpuctl.doctor.facts import Guard
from gpuctl.doctor.reader import ADMISSION, Reader, or_none
from scheduler.model import well_known
from scheduler.watch.client import ApiError

DENY: Final = "Deny"
#: A scheduler that does not exist, so that our webhook leaves the probe unchanged.
NO_SCHEDULER: Final = "gpuctl-doctor-probe"
#: The start of the message of the policy on annotations.
REFUSAL: Final = "only gpu-scheduler may"


async def guards(reader: Reader) -> tuple[Guard, ...]:
    """Every ValidatingAdmissionPolicy, and whether it has a binding that denies."""
    policies = await reader.names(f"{ADMISSION}/validatingadmissionpolicies")
    bindings = await reader.objects(f"{ADMISSION}/validatingadmissionpolicybindings")
    denied = {
        binding.spec.get("policyName")
        for binding in bindings
        if DENY in binding.spec["validationActions"]
    }
    return tuple(Guard(name, name in denied) for name in policies)


async def served(reader: Reader) -> frozenset[str]:
    """The kinds of admission that the API server has, in a version that the chart uses."""
    lists = [
        await or_none(reader.get(path, dict[str, Any])) for path in (ADMISSION, f"{ADMISSION}beta1")
    ]
    return frozenset(one["name"] for each in lists if each for one in each["resources"])


async def refuses_forgery(reader: Reader, namespace: str) -> bool:
    """Whether a dry-run creation of a pod with forged devices is rejected."""
    probe: dict[str, Any] = {
        "metadata": {"name": "gpuctl-doctor-forged", "annotations": {well_known.DEVICES: "gpu:0"}},
        "spec": {
            "schedulerName": NO_SCHEDULER,
            "containers": [{"name": "probe", "image": "probe"}],
        },
    }
    try:
        await reader.post(f"/api/v1/namespaces/{namespace}/pods", probe, dryRun="All")
    except ApiError as error:
        if REFUSAL in error.message:
            return True
        raise
    return False
