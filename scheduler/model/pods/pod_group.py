"""The gang that a pod belongs to, for any scheduler: its members run together or not at all.

A group's name is unique within its namespace only. Members keep the requested tier unless they have
a ladder themselves, and then all of them have one tier (design 5.10).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LABELS: Final = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "kueue.x-k8s.io/pod-group-name",
)
ANNOTATIONS: Final = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "pod-group-name",
)
#: A member of a group with an unknown name.
UNNAMED: Final = "?"


def group_of(labels: Mapping[str, str], annotations: Mapping[str, str], in_spec: str | None) -> str:
    """The group's name; empty for a pod without a group. ``in_spec`` is the group in the pod's
    spec.
    """
    if in_spec is not None:
        return in_spec or UNNAMED
    for key in LABELS:
        if labels.get(key):
            return labels[key]
    for key in ANNOTATIONS:
        if annotations.get(key):
            return annotations[key]
    return ""
