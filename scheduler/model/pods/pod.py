"""A pod as decisions read and compare it: pods with equal values get the same results.

Its fields are those of ``pod_object.py``.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.cached import cached
from scheduler.model.dra.pod_claims import NO_CLAIMS
from scheduler.model.limits import DATA_NAMES_MAX
from scheduler.model.pods.pod_affinity import NO_AFFINITY
from scheduler.model.pods.pod_object import PodObject
from scheduler.model.pods.pod_parts import Condition, Container, HostPort, Owner, Role, Unread
from scheduler.model.resources import NO_SCORE_EXTRA
from scheduler.model.selector import Term
from scheduler.model.topology.request import TOPOLOGY_ANNOTATIONS
from scheduler.model.volumes.pod_volumes import NO_VOLUMES

__all__ = [
    "Condition",
    "Container",
    "EquivalenceClass",
    "HostPort",
    "Owner",
    "Pod",
    "Role",
    "Unread",
]

#: Empty sets are not singletons, and there are many pods.
_NONE: frozenset[str] = frozenset()
#: Annotations that whole plugins are about.
_NOT_PLAIN: Final = TOPOLOGY_ANNOTATIONS.union(
    (
        well_known.MAP,
        well_known.WANTED_MEMORY,
        well_known.MEMORY_GIVEN,
        well_known.ORIGINAL,
        well_known.DATA,
    )
)
#: Annotations that say something about the quota of a team.
_QUOTA: Final = frozenset((well_known.RECLAIMABLE, well_known.KUEUE_WORKLOAD))


class EquivalenceClass(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Everything that a pod without a map requires of a node; see ``equivalence_class``."""

    parts: tuple[object, ...]


class Pod(PodObject, frozen=True, kw_only=True, dict=True):
    """A pod with what decisions read and compare of it."""

    @cached
    def is_plain(self) -> bool:
        """Whether it has none of the fields that whole plugins are about (Plugin.skips_plain)."""
        return (
            self.volumes is NO_VOLUMES
            and self.resource_claims is NO_CLAIMS
            and not self.host_ports
            and not self.required_features
            and not self.reads_devices
            and _NOT_PLAIN.isdisjoint(self.annotations)
            and well_known.GPU_MEMORY not in self.label_keys
        )

    @cached
    def constraints(self) -> tuple[object, ...]:
        """The pod's constraints on a node's labels and taints; equal ones match the same nodes."""
        found: tuple[object, ...] = (
            tuple(sorted(self.node_selector.items())) if self.node_selector else (),
            self.required_terms,
            self.preferred_terms,
            self.tolerations,
        )
        return found if self.is_plain or not self.data_names else (*found, self.data_names)

    @cached
    def data_names(self) -> tuple[str, ...]:
        """The data sets that the pod reads (annotation), in order of their names.

        An annotation ``web, imagenet`` gives ``("imagenet", "web")``.
        """
        text = self.annotations.get(well_known.DATA, "")
        if not text:
            return ()
        first = text.split(",", DATA_NAMES_MAX)[:DATA_NAMES_MAX]
        return tuple(sorted({one.strip() for one in first} - {""}))

    @cached
    def equivalence_class(self) -> EquivalenceClass:
        """Pods without a map and with an equal class get the same result from every filter.

        A decision about such a pod must not read anything else.
        """
        parts: tuple[object, ...] = (
            tuple(sorted(self.requests.items())),
            self.constraints,
            self.host_ports,
            self.unsupported,
            self.required_features,
            self.lacks_request,
        )
        # Most pods have none of these.
        if self.reads_devices:
            requesting = sum(1 for one in self.containers if one.devices.get(well_known.GPU))
            mode = self.annotations.get(well_known.CUDA_MODE)
            parts += (("reads", tuple(sorted(self.reads_devices)), mode, requesting),)
        if self.score_extra != NO_SCORE_EXTRA:
            parts += (("score_extra", *self.score_extra),)
        if self.unread:
            parts += (self.unread,)
        if len(self.containers) > 1 and self.largest:
            parts += (("largest", *sorted(self.largest.items())),)
        if marks := self.quota_marks:
            parts += (("quota", *marks),)
        if not self.is_plain:
            if self.gpu_memory:
                parts += (("memory", *sorted(self.gpu_memory.items())),)
            if well_known.GPU_MEMORY in self.label_keys and (floor := self.memory_floor):
                parts += (("floor", floor),)
        return EquivalenceClass(parts)

    @property
    def quota_marks(self) -> tuple[str, ...]:
        """What it says about the quota of its team; most pods say nothing."""
        if well_known.KUEUE_LABELS.isdisjoint(self.labels) and _QUOTA.isdisjoint(self.annotations):
            return ()
        kueue = "kueue" if self.is_of_kueue else ""
        return (self.annotations.get(well_known.RECLAIMABLE, ""), kueue)

    @property
    def is_of_kueue(self) -> bool:
        """Whether Kueue decides when the pod runs, as Kueue's own marks say."""
        return (
            not well_known.KUEUE_LABELS.isdisjoint(self.labels)
            or well_known.KUEUE_WORKLOAD in self.annotations
        )

    @property
    def names_kueue(self) -> bool:
        """Whether it has any mark of Kueue, also one that its author writes."""
        return any(key.startswith(well_known.KUEUE) for key in (*self.labels, *self.annotations))

    @property
    def is_reclaimable(self) -> bool:
        """Whether it may run above its team's guarantee, from where it can be taken back."""
        return self.annotations.get(well_known.RECLAIMABLE) != "false"

    @cached
    def replica_class(self) -> EquivalenceClass:
        """Interchangeable mapped pods with an equal replica class get the same result for a map.

        A decision about a mapped pod reads only this and the equivalence class.
        """
        environment = tuple((one.name, one.cuda_literal, one.cuda_key) for one in self.containers)
        gpus = tuple(one.devices.get(well_known.GPU, 0) for one in self.containers)
        mode = self.annotations.get(well_known.CUDA_MODE)
        return EquivalenceClass(
            (
                self.workload,
                self.map_text,
                self.revision,
                self.equivalence_class,
                environment,
                gpus,
                mode,
            )
        )

    @cached
    def class_id(self) -> str:
        """The equivalence class as a short text, for serialization."""
        content = msgspec.json.encode(self.equivalence_class)
        return "kind/" + hashlib.blake2b(content, digest_size=8).hexdigest()

    def decision_inputs(self) -> tuple[object, ...]:
        """Everything that a decision reads; with equal values a retry has the same result.

        Own status patches do not change it; otherwise they would requeue the pod forever.
        """
        return (
            self.owner,
            self.labels,
            self.annotations,
            self.gates,
            self.priority,
            self.requests,
            self.score_extra,
            self.containers,
            self.node_selector,
            self.required_terms,
            self.preferred_terms,
            self.affinity,
            self.spread,
            self.tolerations,
            self.volumes,
            self.resource_claims,
            self.unsupported,
            self.required_features,
            self.images,
            self.unread,
            self.active_deadline_s,
        )

    @property
    def node_terms(self) -> tuple[Term, ...]:
        """The terms of its node affinity, required and preferred; most pods have none."""
        if not self.required_terms and not self.preferred_terms:
            return ()
        return (*(self.required_terms or ()), *(one.preference for one in self.preferred_terms))

    @cached
    def label_keys(self) -> frozenset[str]:
        """The node labels that the pod's selector, affinity and data name."""
        if well_known.DATA in self.annotations and self.data_names:
            return self._selected_keys() | {well_known.DATA}
        return self._selected_keys()

    def _selected_keys(self) -> frozenset[str]:
        terms = self.node_terms
        if not terms:
            return frozenset(self.node_selector) if self.node_selector else _NONE
        keys = {requirement.key for term in terms for requirement in term.match_expressions}
        return frozenset(keys | self.node_selector.keys()) or _NONE

    @cached
    def label_steps(self) -> int:
        """The steps of a comparison of the pod with a node's labels and taints.

        One for each requirement and each term; values and tolerations are compared faster.
        """
        steps = 1 + len(self.node_selector) + len(self.tolerations) // 4
        for term in self.node_terms:
            steps += 1
            for requirement in (*term.match_expressions, *term.match_fields):
                steps += 1 + len(requirement.values) // 16
        return steps

    @property
    def node_steps(self) -> int:
        """The steps of a comparison of the pod with the free resources and volumes of a node, and
        with the pods in its domains.
        """
        steps = 1
        if not self.is_plain:
            steps += len(self.host_ports) + len(self.resource_claims) + len(self.volumes)
        if self.spread or self.affinity is not NO_AFFINITY:
            steps += self.term_count
        return steps

    @property
    def term_count(self) -> int:
        """The number of terms about other pods, and of spread constraints."""
        return len(self.affinity.terms()) + len(self.spread)

    @property
    def names_nodes(self) -> bool:
        """Whether a term selects nodes by name instead of by labels."""
        if not self.required_terms and not self.preferred_terms:
            return False
        return any(term.match_fields for term in self.node_terms)
