"""The serialized form of a decision: the output of ``gpuctl why``, the decisions API and replay.

The shapes are a contract (docs/explanations.md). Replay compares their bytes, so equal decisions
have equal bytes: every list is in the order of the decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from scheduler.framework.decision import Decision, Placement, Preemption, Rejection
from scheduler.model.gpu.device import format_devices
from scheduler.model.pods.pod import Pod
from scheduler.model.quantity import format_value
from scheduler.model.reasons.reason import Diagnosis, Reason, ReasonCode, sentence
from scheduler.plugins import REASON_CODES


class Refusal(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One rejection. ``node`` is empty if the pod failed before any node was checked.

    ``need`` and ``have`` are in the resource's base unit (milli for cpu, whole units else).
    ``is_final`` says that the end of another pod cannot help.
    """

    node: str = ""
    stage: str
    code: str
    text: str
    resource: str = ""
    need: int = 0
    have: int = 0
    is_final: bool = False


class Note(msgspec.Struct, frozen=True):
    """A note for the pod's author, as in the event of that reason."""

    reason: str
    text: str


class VictimOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A pod that has to go."""

    namespace: str
    pod: str
    priority: int = 0
    scheduler: str = ""


class SparedPods(msgspec.Struct, frozen=True):
    """How many pods may not be preempted for this cause."""

    cause: str
    pods: int


class PreemptionOutcome(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """What preemption came to.

    ``node`` is where the pod waits for the end of ``victims``; ``violations`` of them are covered
    by a disruption budget that allows no more disruptions. ``claims`` are the pod's own with the
    devices that become free. ``refusals`` are the nodes that would
    not take the pod even without every pod that may be preempted.

    ``elsewhere`` counts victims in namespaces that the reader may not read.

    ``barred`` is why the pod itself preempts no pod: the victims are those that it would preempt.
    ``spared`` are the pods that may not be preempted, on the nodes where their end could help. Both
    are in a decision on the current state only (``explain_now``).
    """

    node: str = ""
    victims: tuple[VictimOutcome, ...] = ()
    elsewhere: int = 0
    violations: int = 0
    claims: str = ""
    refusals: tuple[Refusal, ...] = ()
    barred: str = ""
    spared: tuple[SparedPods, ...] = ()


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A decision: ``node`` with its devices and those of its claims, or ``message`` with the
    rejections.
    """

    node: str | None = None
    devices: str = ""
    claims: str = ""
    index: int | None = None
    cuda_visible_devices: str | None = None
    shares: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    message: str = ""
    total: int = 0
    refusals: tuple[Refusal, ...] = ()
    preemption: PreemptionOutcome | None = None

    @property
    def is_placed(self) -> bool:
        """Whether the pod got a node."""
        return self.node is not None


class Meaning(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The meaning of a reason code; ``helps`` are the changes after which the pod is retried."""

    stage: str
    meaning: str
    helps: tuple[str, ...]
    next_step: str


def explain(decision: Decision) -> Outcome:
    """The whole decision in texts and numbers."""
    if isinstance(decision, Placement):
        return explain_placement(decision)
    diagnosis = decision.diagnosis
    return explain_rejection(diagnosis, sentence(diagnosis), explain_preemption(decision))


def explain_placement(placement: Placement) -> Outcome:
    """The node of the pod and its devices."""
    return Outcome(
        node=placement.node_name,
        devices=format_devices(placement.devices),
        claims="" if placement.claims is None else str(placement.claims),
        index=placement.index,
        cuda_visible_devices=placement.cuda_visible_devices,
        shares=placement.shares,
        notes=tuple(Note(reason, text) for reason, text in placement.notes),
    )


def explain_preemption(
    rejection: Rejection, refusals_max: int | None = None
) -> PreemptionOutcome | None:
    """Which pods have to go, or why none may; None if preemption was not tried."""
    victims = rejection.victims if isinstance(rejection, Preemption) else ()
    if not victims and not rejection.unhelpful and not rejection.nominated_node:
        return None
    nodes = islice(rejection.unhelpful.items(), refusals_max)
    return PreemptionOutcome(
        node=rejection.nominated_node,
        victims=victim_outcomes(victims),
        violations=rejection.violations if isinstance(rejection, Preemption) else 0,
        claims="" if rejection.claims is None else str(rejection.claims),
        refusals=refusals_of(nodes),
    )


def victim_outcomes(victims: Iterable[Pod]) -> tuple[VictimOutcome, ...]:
    """The pods that have to go, in their order."""
    return tuple(
        VictimOutcome(
            namespace=pod.namespace,
            pod=pod.name,
            priority=pod.priority,
            scheduler=pod.scheduler_name,
        )
        for pod in victims
    )


def refusals_of(nodes: Iterable[tuple[str, tuple[Reason, ...]]]) -> tuple[Refusal, ...]:
    """One refusal for each reason of each node."""
    return tuple(_refusal(node, reason) for node, reasons in nodes for reason in reasons)


def explain_rejection(
    diagnosis: Diagnosis, message: str, preemption: PreemptionOutcome | None = None
) -> Outcome:
    """The rejection of every node; ``message`` is the sentence of the same diagnosis."""
    refusals: list[Refusal] = []
    if diagnosis.general is not None:
        refusals.append(_refusal("", diagnosis.general))
    refusals += refusals_of(diagnosis.nodes.items())
    return Outcome(
        message=message,
        total=diagnosis.total,
        refusals=tuple(refusals),
        preemption=preemption,
    )


def meanings(codes: Iterable[str]) -> dict[str, Meaning]:
    """The meaning of each code by its name; unknown codes are left out."""
    return {
        code: meaning_of(REASON_CODES[code]) for code in sorted(set(codes)) if code in REASON_CODES
    }


def meaning_of(code: ReasonCode) -> Meaning:
    """The meaning of one code."""
    return Meaning(
        stage=code.stage,
        meaning=code.meaning,
        helps=tuple(cause.value for cause in code.lifted_by),
        next_step=code.next_step,
    )


def _refusal(node: str, reason: Reason) -> Refusal:
    return Refusal(
        node=node,
        stage=reason.code.stage,
        code=reason.code.name,
        text=_with_numbers(reason),
        resource=reason.resource,
        need=reason.need,
        have=reason.have,
        is_final=not reason.resolvable,
    )


def _with_numbers(reason: Reason) -> str:
    """The sentence with this node's own numbers; the aggregated message has those of the best
    node.
    """
    if not reason.resource or reason.need == 0:
        return reason.text
    need = format_value(reason.resource, reason.need)
    have = format_value(reason.resource, max(reason.have, 0))
    return f"{reason.text} (need {need}; {have} free)"
