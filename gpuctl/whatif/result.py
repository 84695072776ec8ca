"""The answer of ``gpuctl whatif``; its JSON form is a contract: keys are added, never renamed."""

from __future__ import annotations

import msgspec

from scheduler.state.capacity.summary import ModelCapacity


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Encoded without empty fields."""


class PodResult(_Shape, frozen=True, kw_only=True):
    """One pod of the manifest: its ``node`` and devices, or why it waits.

    ``codes`` are the reason codes of all nodes; empty for a pod that admission refuses.
    """

    namespace: str
    pod: str
    node: str = ""
    devices: str = ""
    reason: str = ""
    codes: tuple[str, ...] = ()


class Situation(_Shape, frozen=True, kw_only=True):
    """What becomes of the manifest's pods in one state.

    ``asked`` pods are created and ``starts`` of them start at once. ``others_wait`` counts pods of
    the cluster that wait afterwards, without those that must move. ``preempted`` are the pods with
    a node that end for others. ``models`` are the devices afterwards.
    """

    asked: int
    starts: int
    pods: tuple[PodResult, ...] = ()
    others_wait: int = 0
    preempted: tuple[str, ...] = ()
    models: tuple[ModelCapacity, ...] = ()


class Move(_Shape, frozen=True, kw_only=True):
    """A pod that must leave ``source``.

    ``stays`` says that it cannot be evicted, and ``reason`` why; else its controller creates
    another pod, which starts on ``node``, or waits for ``reason``.
    """

    namespace: str
    pod: str
    source: str = msgspec.field(name="from")
    node: str = ""
    stays: bool = False
    reason: str = ""
    codes: tuple[str, ...] = ()


class Added(_Shape, frozen=True, kw_only=True):
    """A node that the change adds, and the node that it is like."""

    node: str
    like: str


class WhatIf(_Shape, frozen=True, kw_only=True):
    """The whole answer; ``change`` is None if the command line has no change.

    ``source`` is ``leader`` or ``api``, ``time`` the time of the state, ``program`` what decided.
    ``failed`` has a line for each part of the change that cannot be done.
    """

    source: str
    time: str
    program: str
    all_start: bool
    now: Situation
    change: Situation | None = None
    added: tuple[Added, ...] = ()
    moves: tuple[Move, ...] = ()
    failed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
