"""The nodes for which a pod's tier was granted: labels, and the memory of their GPUs.

A tier with node labels is granted for these nodes only, so the pod's selector and affinity are
extended. The extension is recorded on the pod, because its next admission begins without it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import limits, well_known
from scheduler.model.integer_text import whole
from scheduler.model.mig.fallback_ladder import Labels
from scheduler.model.pods.pod import Pod
from scheduler.model.selector import Requirement, Term

_AT_LEAST: Final = f"{well_known.GPU_MEMORY}>="


class TierNodes(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Labels of nodes and the minimum MiB of one of their GPUs; by default any node."""

    labels: Labels = ()
    memory_mib: int = 0

    def __bool__(self) -> bool:
        """Whether it restricts anything."""
        return bool(self.labels or self.memory_mib)

    @property
    def text(self) -> str:
        """As it is written on a pod.

        >>> TierNodes((("gpu-type", "a100"),), 15000).text
        'gpu-type=a100,nvidia.com/gpu.memory>=15000'
        """
        parts = [f"{key}={value}" for key, value in self.labels]
        return ",".join([*parts, f"{_AT_LEAST}{self.memory_mib}"] if self.memory_mib else parts)

    @property
    def requirement(self) -> Requirement:
        """The memory as a requirement of node affinity."""
        return Requirement(well_known.GPU_MEMORY, "Gt", (str(self.memory_mib - 1),))

    def beside(self, other: TierNodes) -> TierNodes | None:
        """Both restrictions; None if no node can satisfy both."""
        labels = dict(self.labels)
        if any(labels.setdefault(key, value) != value for key, value in other.labels):
            return None
        memory_mib = max(self.memory_mib, other.memory_mib)
        return TierNodes(tuple(sorted(labels.items())), memory_mib)

    def on(self, pod: Pod) -> Pod | None:
        """The pod restricted to these nodes; None if its own selector contradicts."""
        if not self:
            return pod
        selector = dict(pod.node_selector)
        if any(selector.setdefault(key, value) != value for key, value in self.labels):
            return None
        terms = pod.required_terms
        if self.memory_mib:
            terms = (Term(),) if terms is None else terms
            is_first = pod.required_terms is None
            terms = tuple(self._narrowed(term, is_first=is_first) for term in terms)
        return msgspec.structs.replace(pod, node_selector=selector, required_terms=terms)

    def off(self, pod: Pod) -> Pod:
        """The pod without the added restrictions."""
        if not self:
            return pod
        gone = dict(self.labels)
        selector = {k: v for k, v in pod.node_selector.items() if gone.get(k) != v}
        terms = pod.required_terms
        if self.memory_mib and terms is not None:
            terms = tuple(self._widened(term) for term in terms)
            terms = None if terms == (Term(),) else terms
        return msgspec.structs.replace(pod, node_selector=selector, required_terms=terms)

    def _narrowed(self, term: Term, *, is_first: bool) -> Term:
        """A term with the memory added; an empty one matches nothing and stays empty."""
        wanted = self.requirement
        if wanted in term.match_expressions or (term == Term() and not is_first):
            return term
        return Term((*term.match_expressions, wanted), term.match_fields)

    def _widened(self, term: Term) -> Term:
        kept = tuple(one for one in term.match_expressions if one != self.requirement)
        return Term(kept, term.match_fields)


ANYWHERE: Final = TierNodes()


def parse_where(text: str) -> TierNodes:
    """Parse the record on a pod; an invalid record restricts nothing."""
    labels: dict[str, str] = {}
    memory_mib = 0
    is_short = len(text) <= limits.TIER_NODES_LENGTH_MAX
    for part in text.split(",") if text and is_short else ():
        number = part.removeprefix(_AT_LEAST)
        if number != part:
            memory_mib = whole(number, limits.GPU_MEMORY_MIB_MAX) or 0
            continue
        key, equals, value = part.partition("=")
        if equals:
            labels[key] = value
    return TierNodes(tuple(sorted(labels.items())), memory_mib)
