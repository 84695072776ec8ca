"""What a pod under review gets: the answer to the webhook's question. Pure.

The shells (the socket server, the simulator) keep the promise that an answer makes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.decide.fallback import Granted, Refused, Tried, choose_tier, is_degradable
from scheduler.decide.view import Profile
from scheduler.model import names
from scheduler.model.admission import Answer, NodeKind, Rewrite, Scope
from scheduler.model.gpumap import MapError, parse
from scheduler.model.ladder import Ladder, LadderError, parse_ladder
from scheduler.model.pod import Pod, Role
from scheduler.state.cluster import Cluster
from scheduler.state.promise import Promise, Promises


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration's part in an admission; ``scope`` is the configured one."""

    profile: Profile = Profile()
    scope: str = "ours"
    ladders: tuple[Ladder, ...] = ()


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, the tier it promises, the word for the metric, and the tiers it is not."""

    answer: Answer
    granted: Granted | None = None
    result: str = "untouched"
    tried: tuple[Tried, ...] = ()


def admit(
    cluster: Cluster,
    promises: Promises,
    waiting: Iterable[Iterable[Pod]],
    pod: Pod,
    scope: Scope,
    rules: Rules,
    *,
    now: float = 0.0,
    move: str | None = None,
    shunned: frozenset[str] = frozenset(),
) -> Admission:
    """Answer one question; ``waiting`` are refused pods that lack one resource, by what they ask.

    ``now`` is the promises' clock; ``move`` the ticket that the pod takes, ``shunned`` are tiers
    on which pods like it crashed.
    """
    kinds = node_kinds(cluster, pod)
    known = promises.known(pod.namespace, pod.annotations.get(names.RESERVATION, ""))
    if known is not None:
        return _again(known, kinds)
    ours = pod.scheduler_name == rules.profile.scheduler_name
    # A pod of ours that we cannot place anyway is neither degraded nor promised anything.
    left_alone = not is_degradable(pod) or (ours and pod.unsupported)
    if left_alone or not _in_scope(cluster, pod, scope, rules):
        return Admission(answer=Answer(node_kinds=kinds))
    try:
        ladders, warnings = ladders_of(cluster, pod, rules)
    except LadderError as error:
        return Admission(answer=Answer(denied=f"{names.MIG_FALLBACK}: {error}"), result="denied")
    ladders = tuple(ladder.without(shunned) for ladder in ladders)
    candidate = _moved(pod if ours else msgspec.structs.replace(pod, unsupported=()), move)
    held = promises.others(pod, now)
    found = choose_tier(cluster, candidate, ladders, held, waiting, rules.profile)
    if isinstance(found, Refused):
        return _refused(found, warnings, move)
    rewrites, annotate = _rewrites(pod, found), ours or bool(found.changes)
    answer = Answer(rewrites=rewrites, annotate=annotate, warnings=warnings, move=move)
    result = "degraded" if found.changes else "kept"
    return Admission(answer=answer, granted=found, result=result, tried=found.tried)


def _again(known: Promise, kinds: dict[str, NodeKind]) -> Admission:
    """The second call for one admission gets the first one's answer."""
    answer = Answer(
        rewrites=known.rewrites,
        reservation=known.id,
        known_reservation=True,
        move=known.pod.annotations.get(names.MOVE),
        node_kinds=kinds,
    )
    return Admission(answer=answer)


def keep(promises: Promises, admission: Admission, promise_id: str, now: float) -> Answer:
    """Make the promise that goes with an admission; the answer then carries its id."""
    granted, answer = admission.granted, admission.answer
    assert granted is not None, "this admission promises nothing"
    promises.make(
        promise_id,
        granted.pod,
        granted.placement.node_name,
        now,
        is_annotated=answer.annotate,
        rewrites=tuple(answer.rewrites),
    )
    return msgspec.structs.replace(answer, reservation=promise_id)


def node_kinds(cluster: Cluster, pod: Pod) -> dict[str, NodeKind]:
    """For each node that the pod's map names: its real name and who numbers its GPUs."""
    if pod.map_text is None:
        return {}
    try:
        entries = parse(pod.map_text).entries.values()
    except MapError:
        return {}
    return {token: _kind(cluster, token) for token in {entry.node for entry in entries}}


def _kind(cluster: Cluster, token: str) -> NodeKind:
    found = cluster.resolve(token)
    if len(found) != 1:
        return NodeKind()
    node = cluster.books[next(iter(found))].node
    assert node is not None
    return NodeKind(node.name, "numbered" if node.is_numbered else "counted")


def _in_scope(cluster: Cluster, pod: Pod, scope: Scope, rules: Rules) -> bool:
    if pod.scheduler_name == rules.profile.scheduler_name:
        return scope == "ours"
    enabled = cluster.namespace(pod.namespace).labels.get(names.FALLBACK_NAMESPACE) == "enabled"
    return scope == "any" and (rules.scope == "all" or enabled)


def ladders_of(
    cluster: Cluster, pod: Pod, rules: Rules
) -> tuple[tuple[Ladder, ...], tuple[str, ...]]:
    """The pod's ladder, else its namespace's, else the configured ones; and warnings."""
    text = pod.annotations.get(names.MIG_FALLBACK)
    if text is not None:
        return (parse_ladder(text),), ()
    text = cluster.namespace(pod.namespace).annotations.get(names.MIG_FALLBACK)
    if text is None:
        return rules.ladders, ()
    try:
        return (parse_ladder(text),), ()
    except LadderError as error:
        return (), (f"namespace {pod.namespace}, {names.MIG_FALLBACK}: {error}",)


def _moved(pod: Pod, move: str | None) -> Pod:
    """The pod with the ticket that it was really given, whatever it says itself."""
    annotations = {key: value for key, value in pod.annotations.items() if key != names.MOVE}
    if move is not None:
        annotations[names.MOVE] = move
    return msgspec.structs.replace(pod, annotations=annotations)


def _refused(found: Refused, warnings: tuple[str, ...], move: str | None) -> Admission:
    if found.is_strict:
        denied = f"none of {', '.join(found.tiers)} is free and the ladder ends in fail"
        return Admission(answer=Answer(denied=denied), result="denied", tried=found.tried)
    answer = Answer(warnings=warnings, move=move)
    return Admission(answer=answer, result="waits", tried=found.tried)


def _rewrites(pod: Pod, found: Granted) -> tuple[Rewrite, ...]:
    return tuple(
        Rewrite(
            container=container.name,
            source=old,
            target=new,
            init=container.role is not Role.APP,
        )
        for container in pod.containers
        for old, new in found.changes
        if container.devices.get(old, 0) > 0
    )
