"""Asks about the admission policies: which are there, which are bound, and whether one refuses."""

from __future__ import annotations

from typing import Any, Final

from gpuctl.doctor.facts import Guard, Unread
from gpuctl.doctor.reader import ADMISSION, Reader
from scheduler.model import well_known
from scheduler.watch.client import ApiError

DENY: Final = "Deny"
#: No webhook of ours takes anything away from a pod of this scheduler.
NOBODY: Final = "gpuctl-doctor-nobody"
#: How the policy on annotations begins.
REFUSAL: Final = "only gpu-scheduler may"


async def guards(reader: Reader) -> tuple[Guard, ...]:
    """Every ValidatingAdmissionPolicy, with whether a binding of it denies."""
    policies = await reader.names(f"{ADMISSION}/validatingadmissionpolicies")
    bindings = await reader.things(f"{ADMISSION}/validatingadmissionpolicybindings")
    denied = {
        one.spec.get("policyName") for one in bindings if DENY in one.spec["validationActions"]
    }
    return tuple(Guard(name, name in denied) for name in policies)


async def refuses_forgery(reader: Reader, namespace: str) -> bool | Unread:
    """Whether a pod with devices that no Binding gave it is refused; a dry run."""
    probe: dict[str, Any] = {
        "metadata": {"name": "gpuctl-doctor-forged", "annotations": {well_known.DEVICES: "gpu:0"}},
        "spec": {"schedulerName": NOBODY, "containers": [{"name": "probe", "image": "probe"}]},
    }
    try:
        await reader.post(f"/api/v1/namespaces/{namespace}/pods", probe, dryRun="All")
    except ApiError as error:
        return True if REFUSAL in error.message else Unread(error.message)
    return False
