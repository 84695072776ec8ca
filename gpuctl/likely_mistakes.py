"""Likely mistakes in a pod: a forgotten or misspelt schedulerName, misspelt annotations."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.written_annotations import is_known, nearest

#: How similar the name of a scheduler, and the name of an annotation behind our prefix, must be.
NEAR: Final = 0.85
NEAR_NAME: Final = 0.6
KEYS_MAX: Final = 256
LENGTH_MAX: Final = 128


def notices(pod: Pod) -> tuple[str, ...]:
    """One sentence for each likely mistake, with the correction."""
    return (*_scheduler(pod), *_annotations(pod))


def _scheduler(pod: Pod) -> Iterator[str]:
    ours, name = well_known.SCHEDULER_NAME, pod.scheduler_name
    if name == ours or pod.node_name or well_known.DECISION in pod.annotations:
        return
    if difflib.SequenceMatcher(None, name[:LENGTH_MAX], ours).ratio() >= NEAR:
        yield f"no scheduler {name} may exist; did you mean spec.schedulerName: {ours}?"
    else:
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
