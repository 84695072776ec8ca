"""The source of a pod's index in its map, as text for users (``pod_index.py`` has the sources)."""

from __future__ import annotations

from scheduler.model.gpu.gpu_map import MapError, parse
from scheduler.model.pods.index_readers import Marks
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_index import Indexed, IndexRule, indexed


def index_source(pod: Pod) -> str:
    """The source of the pod's index, with the labels that were read; empty without a map."""
    if pod.map_text is None:
        return ""
    try:
        lines = len(parse(pod.map_text).indexes)
    except MapError:
        return ""
    found = indexed(pod.owner, Marks(pod.name, pod.labels, pod.annotations, lines))
    return f"{_given(found)}{_origin(pod, found)}"


def _given(found: Indexed) -> str:
    if found.index is IndexRule.UNKNOWN:
        return "unknown: "
    if found.index is IndexRule.ASSIGNED:
        return "chosen at the Binding: "
    return f"{found.index}: "


def _origin(pod: Pod, found: Indexed) -> str:
    if found.source is None:
        kind = pod.owner.word if pod.owner else "Pod"
        return f"the pods of a {kind} have no number"
    read = [f"{key}={pod.labels[key]}" for key in found.source.labels if key in pod.labels]
    text = f"{found.source.meaning} ({', '.join(read) or found.source.also})"
    return text.replace("`", "")
