"""Zone and region labels of bound volumes (kube-scheduler: volumezone)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, BoundFilter, Plugin, Reasons, Refuse
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.volumes.persistent_volume import ZONE_LABELS
from scheduler.model.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE
from scheduler.plugins.volumes.codes import MAP_AND_VOLUME, VOLUME_NOT_FOUND, VOLUME_ZONE
from scheduler.state.node_info import NodeInfo

_TEXT: Final = "node(s) had no available volume zone"
#: A node without the old label is compared by the new one.
_NEWER: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class _Zone(msgspec.Struct, frozen=True):
    """The values of a node label that a volume allows."""

    claim: str
    volume: str
    key: str
    values: frozenset[str]

    def __str__(self) -> str:
        return (
            f"claim {self.claim} is bound to volume {self.volume}"
            f" ({self.key}={'|'.join(sorted(self.values))})"
        )


def pre_filter(view: View, pod: Pod, _settings: Settings) -> Refuse | BoundFilter | None:
    """Read the zones of the volumes; a volume that does not exist keeps the pod off every node."""
    if not pod.volumes.claims:
        return None
    zones: list[_Zone] = []
    for use, key in zip(pod.volumes.claims, pod.claims, strict=True):
        claim = view.volumes.claim(key)
        if use.is_ephemeral or claim is None or not claim.volume_name:
            continue
        volume = view.volumes.volume(claim.volume_name)
        if volume is None:
            return _gone(view, claim.volume_name)
        zones += [_Zone(claim.name, volume.name, one, values) for one, values in volume.zones]
    return BoundFilter(_check(pod, zones)) if zones else None


def _gone(view: View, name: str) -> Refuse:
    seen = view.volumes.volume_seen(name)
    problem = "not found" if seen is None else f"cannot be read: {seen.unread}"
    text = f'persistentvolume "{name}" {problem}'
    return Refuse(Reason(code=VOLUME_NOT_FOUND, text=text, resolvable=False))


def _check(pod: Pod, zones: list[_Zone]) -> Callable[[NodeInfo], Reasons]:
    """Nodes with equal zone labels get one answer, unless a reason about a map names the node."""
    is_mapped = pod.map_text is not None
    known: dict[tuple[str | None, ...], Reasons] = {}

    def check(node_info: NodeInfo) -> Reasons:
        assert node_info.node is not None
        labels = node_info.node.labels
        place = tuple([labels.get(key) for key in ZONE_LABELS])
        reasons = known.get(place)
        if reasons is None or is_mapped:
            zone = _other_zone(labels, zones)
            reasons = FITS if zone is None else (_reason(pod, node_info.node.name, zone),)
            known[place] = reasons
        return reasons

    return check


def _other_zone(labels: Mapping[str, str], zones: list[_Zone]) -> _Zone | None:
    """The first zone that a node with these labels is not in."""
    if not any(key in labels for key in ZONE_LABELS):
        return None  # a cluster of one zone may not name it
    for one in zones:
        value = labels.get(one.key)
        if value is None:
            value = labels.get(_NEWER.get(one.key, one.key))
        if value is None or value not in one.values:
            return one
    return None


def _reason(pod: Pod, node_name: str, zone: _Zone) -> Reason:
    if pod.map_text is not None:
        text = f"{_TEXT}: the map names node {node_name} and {zone}"
        return Reason(code=MAP_AND_VOLUME, text=text, resolvable=False)
    text = f"{_TEXT} (claim {zone.claim}; volume {zone.volume})"
    return Reason(code=VOLUME_ZONE, text=text, resolvable=False)


PLUGIN: Final = Plugin(
    name="VolumeZone",
    skips_plain=True,
    reads=(pod_reads.VOLUMES,),
    codes=(VOLUME_ZONE,),
    pre_filter=pre_filter,
)
