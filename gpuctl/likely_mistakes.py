"""Likely mistakes in a pod: a forgotten or misspelt schedulerName, misspelt annotations or GPUs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.written_annotations import is_known, nearest

if TYPE_CHECKING:  # its module imports the API client, which `simulate` does not need
    from gpuctl.our_scheduler import OurScheduler

#: How similar the name of a scheduler, and the name of an annotation behind our prefix, must be.
NEAR: Final = 0.85
NEAR_NAME: Final = 0.6
#: How similar the domain of a resource, and its whole name, must be to those of NVIDIA's GPUs.
NEAR_RESOURCE: Final = 0.8
NEAR_GPU: Final = 0.95
#: The name that the API server sets in a pod without one.
DEFAULT_SCHEDULER: Final = "default-scheduler"
KEYS_MAX: Final = 256
LENGTH_MAX: Final = 128


def notices(pod: Pod, scheduler: OurScheduler) -> tuple[str, ...]:
    """One sentence for each likely mistake, with the correction."""
    return (*_scheduler(pod, scheduler), *_annotations(pod), *of_resources(pod))


def of_resources(pod: Pod) -> Iterator[str]:
    """One sentence for each requested resource whose name resembles that of GPUs."""
    for resource in sorted(pod.requests)[:KEYS_MAX]:
        meant = _resource_meant(resource)
        if meant:
            yield f"resource {resource} is unknown; did you mean {meant}?"


def of_scheduler_name(name: str, ours: str) -> Iterator[str]:
    """A sentence for another name that resembles ours."""
    if name != ours and difflib.SequenceMatcher(None, name[:LENGTH_MAX], ours).ratio() >= NEAR:
        yield f"no scheduler {name} may exist; did you mean spec.schedulerName: {ours}?"


def _scheduler(pod: Pod, scheduler: OurScheduler) -> Iterator[str]:
    """The name of an installation that is not known may be any name but Kubernetes' own."""
    ours, name = scheduler.name, pod.scheduler_name
    if name == ours or pod.node_name or well_known.DECISION in pod.annotations:
        return
    if misspelt := [*of_scheduler_name(name, ours)]:
        yield from misspelt
    elif scheduler.is_known or name == DEFAULT_SCHEDULER:
        yield (
            f"its scheduler is {name}, not {ours}; to be placed by {ours}, add"
            f" spec.schedulerName: {ours}"
        )


def _annotations(pod: Pod) -> Iterator[str]:
    for key in sorted(pod.annotations)[:KEYS_MAX]:
        if len(key) > LENGTH_MAX or is_known(key):
            continue
        near = nearest(key, NEAR_NAME)
        if near:
            yield f"annotation {key} is unknown; did you mean {near}?"
        elif key.startswith(well_known.PREFIX):
            yield f"annotation {key} is unknown, and ignored"


def _resource_meant(resource: str) -> str:
    if len(resource) > LENGTH_MAX:
        return ""
    domain, slash, name = resource.partition("/")
    ours, gpu = well_known.VENDOR.removesuffix("/"), well_known.GPU
    if slash and domain != ours and _resembles(domain, ours):
        return f"{well_known.VENDOR}{name}"
    if slash and resource != gpu and _resembles(resource.lower(), gpu, near=NEAR_GPU):
        return gpu
    return ""


def _resembles(text: str, wanted: str, near: float = NEAR_RESOURCE) -> bool:
    return difflib.SequenceMatcher(None, text, wanted).ratio() >= near
