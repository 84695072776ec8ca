"""PersistentVolumes, as far as decisions read them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from scheduler.model.selector import Term, matches_any
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.csi_volume import (
    SEPARATOR,
    CsiVolume,
    InTreePlugin,
    translated_terms,
)
from scheduler.model.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE

AVAILABLE = "Available"
ZONE_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)


class ClaimRef(msgspec.Struct, frozen=True, gc=False):
    """The claim that a volume is for; ``uid`` is empty where its author wrote it."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolume(msgspec.Struct, frozen=True, kw_only=True, tag=True, dict=True):
    """One PersistentVolume; ``capacity`` is in bytes.

    ``csi`` is how a CSI driver knows it; ``plugin`` is the in-tree plugin that the driver has
    replaced, where the volume names that. ``unread`` says what of it cannot be read.
    """

    name: str
    uid: str = ""
    version: str = ""
    labels: dict[str, str] = {}
    class_name: str = ""
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    phase: str = ""
    claim: ClaimRef | None = None
    is_bound_by_controller: bool = False
    is_deleting: bool = False
    required_terms: tuple[Term, ...] | None = None
    csi: CsiVolume | None = None
    plugin: InTreePlugin | None = None
    unread: str = ""

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def is_for(self, claim: Claim) -> bool:
        """Whether it is bound, or bound in advance, to a claim (``IsVolumeBoundToClaim``)."""
        ref = self.claim
        return (
            ref is not None
            and (ref.namespace, ref.name) == (claim.namespace, claim.name)
            and ref.uid in ("", claim.uid)
        )

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether its node affinity lets a node with these labels use it."""
        return self.required_terms is None or matches_any(self.required_terms, labels, "")

    def admits_as_csi(self, labels: Mapping[str, str]) -> bool:
        """The same on a node where the CSI driver has replaced the in-tree plugin."""
        terms = self.translated_terms
        return terms is None or matches_any(terms, labels, "")

    @cached_property
    def translated_terms(self) -> tuple[Term, ...] | None:
        """The node affinity in the topology of its CSI driver."""
        if self.plugin is None:
            return self.required_terms
        return translated_terms(self.plugin, self.required_terms, self.labels)

    @cached_property
    def zones(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """Its zone and region labels with the values that each allows."""
        found = []
        for key in ZONE_LABELS:
            values = [one.strip() for one in self.labels.get(key, "").split(SEPARATOR)]
            if all(values):
                found.append((key, frozenset(values)))
        return tuple(found)

    @cached_property
    def node_labels(self) -> frozenset[str]:
        """The node labels that its node affinity reads."""
        terms = (*(self.required_terms or ()), *(self.translated_terms or ()))
        return frozenset(one.key for term in terms for one in term.match_expressions)
