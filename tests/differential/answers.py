"""What a scheduler answers about one pod, and whether two answers differ.

A pod that fits has its feasible nodes; a pod that fits nowhere has kube-scheduler's histogram:
how many nodes give each reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from scheduler.framework.decision import Decision, Placement, Rejection
from scheduler.framework.decision import Preemption as OurPreemption
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import NO_NODES_TEXT, Diagnosis
from scheduler.plugins.dynamic_resources.allocation.taken_devices import Problem
from tests.differential.dra.allocations import NO_CLAIMS, OurAllocations, requests_of
from tests.differential.sequence import AllocateClaim, SetObject

_HEAD: Final = re.compile(r"0/\d+ nodes are available: ?")
#: What PostFilter came to: that of DynamicResources, then that of preemption.
_PREEMPTION: Final = re.compile(
    r"(?:\. deallocation of ResourceClaim completed,)?\.? ?preemption: .*", re.DOTALL
)
_COUNTED: Final = re.compile(r"(\d+) (.+)")
#: Our reasons have the text of Kubernetes up to 1.34, which names the taint (difference D2).
_TAINT: Final = re.compile(r"node\(s\) had untolerated taint \{.*\}")
_TAINT_TEXT: Final = "node(s) had untolerated taint(s)"
#: Which objects a reason is about, behind kube-scheduler's text (difference D4).
_DETAIL: Final = re.compile(
    r" \((?:claim|class|volume|driver|request|shared counters|duplicate|slice|counter) .*\)$"
)
#: A pod's name in a live run, behind its name in the sequence.
_LIVE_NAME: Final = re.compile(r"\b([pq]\d+)-\d+\b")
#: kube-scheduler ends the whole attempt with an error where a request is impossible on one node
#: (difference D9).
FAILED: Final = "the attempt ended with an error"
#: kube-scheduler gives this to every node that is not named by a pod whose required node affinity
#: names its nodes; ours gives each node its own reasons (difference D3).
NOT_NAMED: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


Effects = tuple[SetObject | AllocateClaim, ...]
NO_DEVICES: Final = Problem.NO_DEVICES.value
INVALID: Final = Problem.INVALID_POOL.value
#: Ours does not search on where kube-scheduler finds nothing in the end (difference D9).
_LIMIT: Final = re.compile(r"the search for devices takes more than \d+ steps")


class Victims(msgspec.Struct, frozen=True, array_like=True):
    """The victims on one node: the names of the pods, separated by spaces, and how many of them a
    disruption budget protects."""

    pods: str
    violations: int


class Preemption(msgspec.Struct, frozen=True, array_like=True):
    """What kube-scheduler's preemption found: the victims on each node, and the node it chose."""

    candidates: dict[str, Victims]
    nominated: str = ""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """One answer of kube-scheduler.

    ``nodes`` are the feasible nodes, separated by spaces, and ``choice`` is where the pod went;
    ``reasons`` counts the nodes per reason, with 0 for a reason about the whole pod. ``effects``
    are the objects that changed until the pod was bound.
    """

    nodes: str = ""
    choice: str = ""
    reasons: dict[str, int] = {}
    effects: Effects = ()
    preemption: Preemption | None = None

    @property
    def feasible(self) -> frozenset[str]:
        """The feasible nodes."""
        return frozenset(self.nodes.split())


class OurAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Ours: every node asked one by one, and what the scheduling decision made of them.

    ``named`` are the nodes that the pod's required node affinity names, or None.
    """

    feasible: frozenset[str]
    rejected: Mapping[str, tuple[str, ...]]
    decision: Decision
    candidates: Mapping[str, Victims] = {}
    best: tuple[str, ...] = ()
    named: frozenset[str] | None = None
    claims: OurAllocations = NO_CLAIMS

    def only_at(self, node_name: str) -> OurAnswer:
        """The answer about a pod that is nominated for this node: kube-scheduler asks its extender
        about that node alone where the pod fits (``schedule_one.go`` evaluateNominatedNode)."""
        return msgspec.structs.replace(self, feasible=self.feasible & {node_name})

    @property
    def choice(self) -> str:
        """The node of the decision, if it is a placement."""
        return self.decision.node_name if isinstance(self.decision, Placement) else ""

    @property
    def deallocates(self) -> str:
        """The claim whose allocation the decision gives up."""
        found = self.decision.deallocates if isinstance(self.decision, Rejection) else None
        return f"{found.namespace}/{found.name}" if found is not None else ""

    @property
    def reasons(self) -> dict[str, int]:
        """The decision's reasons in kube-scheduler's words, without our numbers."""
        if isinstance(self.decision, Placement):
            return {}
        return reasons_of(self.decision.diagnosis, self.named, self.claims)


def placed(nodes: Iterable[str], choice: str) -> Answer:
    """kube-scheduler found feasible nodes; the pod goes to our choice."""
    return Answer(nodes=" ".join(sorted(nodes)), choice=choice)


def rejected(message: str) -> Answer:
    """kube-scheduler found none; ``message`` is that of the condition PodScheduled."""
    return Answer(reasons=parse(message))


def failed() -> Answer:
    """kube-scheduler's attempt ended with an error."""
    return Answer(reasons={FAILED: 0})


def allocation_difference(theirs: Answer, ours: OurAnswer) -> str:
    """What differs between the allocations on the chosen node: how many devices each request has,
    and which of its alternatives was chosen. The devices may be other ones."""
    given = {
        one.key.partition("/")[2]: requests_of(one.allocation)
        for one in theirs.effects
        if isinstance(one, AllocateClaim) and one.allocation is not None
    }
    new = ours.claims.new.get(theirs.choice)
    for name, requests in (new.requests if new is not None else {}).items():
        if requests != given.get(name):
            return f"claim {name}: kube-scheduler meets {given.get(name)}; ours {requests}"
    return ""


def parse(message: str) -> dict[str, int]:
    """The histogram in the message of kube-scheduler's FitError.

    >>> parse("0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu. preemption: no.")
    {'Too many pods': 1, 'Insufficient cpu': 2}
    """
    if message == NO_NODES_TEXT:
        return {message: 0}
    head = _HEAD.match(message)
    assert head is not None, f"no message of a FitError: {message}"
    body = _PREEMPTION.sub("", message[head.end() :]).removesuffix(".")
    found: dict[str, int] = {}
    for part in re.split(r", (?=\d+ )", body):
        counted = _COUNTED.fullmatch(part)
        if counted:
            found[counted[2]] = int(counted[1])
        elif part:
            # What preemption came to may follow, without a word of its own.
            found[_by_sequence(part.partition(". ")[0])] = 0
    return found


def reasons_of(
    diagnosis: Diagnosis,
    named: frozenset[str] | None = None,
    claims: OurAllocations = NO_CLAIMS,
) -> dict[str, int]:
    """The same of our diagnosis, for a pod that names these nodes and has these claims."""
    if diagnosis.general is not None:
        return {_in_their_words(diagnosis.general.text): 0}
    counts: Counter[str] = Counter()
    for name, reasons in diagnosis.nodes.items():
        if named is not None and name not in named:
            counts[NOT_NAMED] += 1
        else:
            searched = {f"Insufficient {one}" for one in claims.served.get(name, ())}
            texts = {_in_their_words(one.text) for one in reasons if not _LIMIT.fullmatch(one.text)}
            # Ours counts their devices as a resource; theirs is a claim, after all resources.
            counts.update(texts - searched or {INVALID if name in claims.invalid else NO_DEVICES})
    return dict(counts)


def named_nodes(pod: Pod) -> frozenset[str] | None:
    """The nodes that every term of the required node affinity names
    (``nodeaffinity/node_affinity.go`` PreFilter); None where one names none."""
    names: set[str] = set()
    for term in pod.required_terms or ():
        fields = [
            set(one.values)
            for one in term.match_fields
            if (one.key, one.operator) == ("metadata.name", "In")
        ]
        if not fields:
            return None
        names |= set.intersection(*fields)
    return frozenset(names) if pod.required_terms else None


def _in_their_words(text: str) -> str:
    return _TAINT_TEXT if _TAINT.fullmatch(text) else _by_sequence(_DETAIL.sub("", text))


def _by_sequence(text: str) -> str:
    """The text with the pod's name in the sequence: claims of ephemeral volumes have its name."""
    return _LIVE_NAME.sub(r"\1", text)


def preemption_difference(theirs: Preemption, ours: OurAnswer) -> str:
    """What differs between the victims; the chosen node is one of those that are equally good."""
    if theirs.candidates != ours.candidates:
        return f"victims of kube-scheduler: {theirs.candidates}; ours: {ours.candidates}"
    if theirs.nominated and theirs.nominated not in ours.best:
        return f"node of kube-scheduler: {theirs.nominated}; ours: {ours.best}"
    if not isinstance(ours.decision, OurPreemption):
        return f"our decision has no victims: {ours.reasons}"
    if ours.decision.nominated_node not in ours.best:
        return f"our decision is {ours.decision.nominated_node}; the best are {ours.best}"
    return ""


def difference(theirs: Answer, ours: OurAnswer) -> str:
    """What differs; empty where nothing does."""
    if FAILED in theirs.reasons:
        return "" if ours.claims.failing else f"an error for kube-scheduler only: {ours.reasons}"
    if ours.claims.problems:
        return f"our allocation is not valid: {'; '.join(ours.claims.problems)}"
    if failing := sorted(ours.claims.failing & theirs.feasible):
        return f"an error for us only, in kube-scheduler's order: {failing}"
    return _difference(theirs, ours)


def _difference(theirs: Answer, ours: OurAnswer) -> str:
    """The same of answers about nodes."""
    if theirs.preemption is not None:
        return preemption_difference(theirs.preemption, ours)
    if theirs.feasible != ours.feasible:
        only_theirs = sorted(theirs.feasible - ours.feasible)
        only_ours = sorted(ours.feasible - theirs.feasible)
        why = "; ".join(f"{name}: {', '.join(ours.rejected.get(name, ()))}" for name in only_theirs)
        return (
            f"feasible only for kube-scheduler: {only_theirs} ({why}); only for us: {only_ours}"
            f" (theirs: {theirs.reasons or theirs.nodes})"
        )
    if theirs.feasible and ours.choice not in theirs.feasible:
        return f"our decision is {ours.choice or ours.reasons}, feasible are: {theirs.nodes}"
    if isinstance(ours.decision, OurPreemption):
        return f"only our decision has victims: {ours.candidates}"
    if theirs.reasons != ours.reasons:
        return f"reasons of kube-scheduler: {theirs.reasons}; ours: {ours.reasons}"
    return ""
