"""What a pod has instead of its request, as sentences for its author.

The webhook warns with them at admission, and an event on the bound pod has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.model import well_known
from scheduler.model.crd.migration_consent import missing_consent
from scheduler.model.gpu.gpu_memory import in_both_units, least_mib
from scheduler.model.pods.original_request import with_original_request
from scheduler.model.pods.pod import Pod
from scheduler.model.quantity import format_value

#: The reasons of the events.
STEPPED_DOWN: Final = "SteppedDown"
WHOLE_GPU_GIVEN: Final = "WholeGpuGiven"
#: A whole GPU is worth a notice from so many times the requested memory on.
LARGE: Final = 2


def notices(pod: Pod, card_mib: int, *, restores: bool) -> tuple[tuple[str, str], ...]:
    """Reasons and sentences for a pod that is bound, by the webhook's records on it.

    ``card_mib`` is the memory of one GPU of its node, 0 if unknown.
    """
    found: list[tuple[str, str]] = []
    if (asked := with_original_request(pod)) is not None:
        before, now = asked.gpu_requests, pod.gpu_requests
        text = stepped_down(
            pod, sorted(before.keys() - now.keys()), sorted(now.keys() - before), restores=restores
        )
        found += [(STEPPED_DOWN, text)] if text else []
    if well_known.MEMORY_GIVEN in pod.annotations:
        text = whole_gpu(pod.gpu_memory.get(well_known.GPU, 0), card_mib)
        found += [(WHOLE_GPU_GIVEN, text)] if text else []
    return tuple(found)


def stepped_down(pod: Pod, asked: Iterable[str], given: Iterable[str], *, restores: bool) -> str:
    """The pod has ``given`` instead of ``asked``; empty if either is empty.

    ``restores``: pods with a smaller tier are replaced when the requested one is free.
    """
    wanted, has = _names(asked), _names(given)
    if not (wanted and has):
        return ""
    blocked = missing_consent(pod)
    if not restores:
        later = f"it keeps {has}"
    elif blocked is not None:
        later = f"it keeps {has}: {blocked.text}"
    else:
        later = f"a restore gives it {wanted} when that is free"
    return f"the pod requested {wanted}, which was not free, and has {has}; {later}"


def whole_gpu(amount: int, card_mib: int) -> str:
    """A whole GPU is given for ``amount`` bytes; empty if it has less than LARGE times that."""
    if not amount or card_mib < LARGE * least_mib(amount):
        return ""
    asked = format_value(well_known.MEMORY, amount)
    return (
        f"the pod requested {asked} of GPU memory and has a whole GPU with"
        f" {in_both_units(card_mib)}, because no MIG instance with this memory was free"
    )


def _names(resources: Iterable[str]) -> str:
    return " and ".join(map(well_known.mig_profile, resources))
