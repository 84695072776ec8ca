"""The built-in configurations of every mig-manager, by their names: ``all-1g.10gb`` and others.

A configuration that an administrator wrote is in a ConfigMap, which is not read.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.mig.profile import GpuModel, profile_of

PREFIX: Final = "all-"
DISABLED: Final = "all-disabled"
ENABLED: Final = "all-enabled"
#: ``all-balanced``, by the compute slices of the GPU.
_BALANCED: Final = {7: (3, 2, 1, 1), 4: (2, 1, 1), 2: (1, 1)}


def instances(name: str, gpu_model: GpuModel) -> tuple[str, ...] | None:
    """The profiles of the instances on each GPU; None if no built-in configuration has this name.

    >>> from scheduler.model.mig.layout import GPU_MODELS
    >>> instances("all-balanced", GPU_MODELS["A30-24"])
    ('2g.12gb', '1g.6gb', '1g.6gb')
    """
    if name in (DISABLED, ENABLED):
        return ()
    if name == f"{PREFIX}balanced":
        return tuple(
            next(profile.name for profile in gpu_model.plain if profile.compute == slices)
            for slices in _BALANCED[gpu_model.compute_slices]
        )
    word = name.removeprefix(PREFIX)
    profile = profile_of(gpu_model, word) if word != name else None
    return None if profile is None else (profile.name,) * profile.max_count
