"""What the decisions API says: the shapes of its answers and of the journal's file.

``gpuctl``, the dashboard and scripts read these, so they are a contract (docs/explanations.md):
fields are added, never renamed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.decide.explain import Meaning, Outcome
from scheduler.decide.score_breakdown import Ranking
from scheduler.framework.settings import Settings
from scheduler.state.snapshot import ClusterSnapshot

API_VERSION = "gpu-scheduler.io/v1"
#: Of the snapshot: the number changes when the meaning of a field does.
SNAPSHOT_VERSION = 1


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Written without what is empty."""


class _Answer(_Shape, frozen=True, kw_only=True, tag_field="kind"):
    """A whole answer: it says its version, and its name as ``kind``."""

    api_version: str


class Decided(_Shape, frozen=True, kw_only=True):
    """One decision as the journal has it.

    ``generation`` counts what had been folded into the state; ``end`` is how the Binding ended
    and ``problem`` what the API server said. ``detail_dropped``: it is so old that only its
    sentence is left.
    """

    id: str
    time: str
    namespace: str
    pod: str
    uid: str
    attempt: int
    generation: int
    outcome: Outcome
    ranking: Ranking | None = None
    fallback: str = ""
    end: str = ""
    problem: str = ""
    detail_dropped: bool = False


class Tier(_Shape, frozen=True, kw_only=True):
    """A tier that was tried at admission and had nothing free."""

    tier: str
    message: str


class Admitted(_Shape, frozen=True, kw_only=True):
    """What a pod got at admission: ``kept``, ``degraded``, ``pending``, ``denied`` or
    ``quota_exceeded``."""

    time: str
    result: str
    asked: str
    granted: str = ""
    tried: tuple[Tier, ...] = ()


class Waiting(_Shape, frozen=True, kw_only=True):
    """A pod's place in the queue: ``active``, ``backoff`` or ``unschedulable``."""

    place: str
    attempts: int
    waits_s: float
    next_try_s: float | None = None
    woken_by: tuple[str, ...] = ()


class PodAnswer(_Answer, frozen=True, kw_only=True, tag="PodDecisions"):
    """``GET /decisions/NAMESPACE/POD``.

    ``now`` is a decision on the present state, made for this answer and for nothing else;
    ``decisions`` are the journal's, newest first. ``codes`` says what the codes mean.
    """

    namespace: str
    pod: str
    leads: bool
    waiting: Waiting | None = None
    now: Outcome | None = None
    decisions: tuple[Decided, ...] = ()
    admission: Admitted | None = None
    codes: Mapping[str, Meaning] = {}


class Latest(_Answer, frozen=True, kw_only=True, tag="Decisions"):
    """``GET /decisions``: the newest ones, newest first.

    ``kept`` is how many there are, ``awaited`` how many snapshots wait for a next one.
    """

    leads: bool
    kept: int
    awaited: int = 0
    decisions: tuple[Decided, ...] = ()


class Leader(_Answer, frozen=True, kw_only=True, tag="Leader"):
    """``GET /leader``: whether this process is the leader, by which name, and in which term."""

    identity: str
    leads: bool
    epoch: int | None = None


class Pending(_Shape, frozen=True, kw_only=True):
    """A waiting pod and what was decided about it on exactly the snapshot's state."""

    namespace: str
    pod: str
    uid: str
    outcome: Outcome


class Snapshot(_Answer, frozen=True, kw_only=True, tag="Snapshot"):
    """``GET /snapshot``: one instant of everything.

    ``pending`` are decisions made on this state when it was taken: what replay must repeat.
    ``caught`` is the id of the decision that was waited for, if one was. ``left_out`` counts
    waiting pods that there was no time to decide about.
    """

    version: int
    program: str
    time: str
    settings: Settings = msgspec.field(name="profile")
    configuration: msgspec.Raw
    state: ClusterSnapshot
    pending: tuple[Pending, ...] = ()
    left_out: int = 0
    caught: str = ""
    decisions: tuple[Decided, ...] = ()
