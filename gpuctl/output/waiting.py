"""The pods that wait, grouped by reason: the answer of ``gpuctl why`` about several pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpuctl.our_scheduler import OurScheduler
from gpuctl.output.table import headed
from gpuctl.output.text import MORE, indented, plain, titled
from gpuctl.pods.pod_facts import OUR_DEFAULT, PodFacts, facts_of
from scheduler.decide.explain import Meaning, meanings
from scheduler.decide.rejection_message import parts
from scheduler.decide.remedy.concerned_objects import of_message
from scheduler.decide.remedy.outlook import Outlook
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.standing import GATED, WAITS
from scheduler.model.timestamps import age
from scheduler.report.decisions.pod_summary import REASONS_MAX, STEPS_MAX, steps, verdict

#: The pods of a group that are named, unless all are asked for.
PODS_MAX: Final = 5
_NUMBERS: Final = re.compile(r" \([^)]*\)")


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Encoded without empty fields."""


class WaitingPod(_Shape, frozen=True, kw_only=True):
    """One pod that waits; ``since`` is a timestamp."""

    namespace: str
    pod: str
    owner: str = ""
    asks: dict[str, str] = {}
    since: str = ""
    message: str = ""
    notices: tuple[str, ...] = ()


class WaitingGroup(_Shape, frozen=True, kw_only=True):
    """The pods that wait for the same reasons, the oldest first.

    ``reasons`` are without the numbers of one pod; ``outlook`` is that of the oldest pod, where the
    decisions API is reachable.
    """

    reasons: tuple[str, ...]
    codes: dict[str, Meaning] = {}
    pods: tuple[WaitingPod, ...]
    outlook: Outlook | None = None


class WaitingPods(_Shape, frozen=True, kw_only=True):
    """All groups, the largest first; ``others`` counts the pods that do not wait.

    ``more`` are the commands that reach the decisions API, for a user with these rights.
    """

    groups: tuple[WaitingGroup, ...] = ()
    others: int = 0
    remarks: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


def waiting_pods(
    pods: Iterable[Pod], *, is_named: bool, scheduler: OurScheduler = OUR_DEFAULT
) -> WaitingPods:
    """The pods that wait for a node, in groups; without ``is_named`` only those for GPUs or for
    gpu-scheduler.
    """
    groups: dict[tuple[str, ...], list[tuple[Pod, PodFacts]]] = {}
    others = 0
    for pod in pods:
        facts = facts_of(pod, scheduler)
        concerns = is_named or pod.scheduler_name == scheduler.name or pod.gpu_requests
        if facts.standing not in (WAITS, GATED) or not concerns:
            others += 1
            continue
        groups.setdefault(_reasons(facts), []).append((pod, facts))
    found = [_group(reasons, members) for reasons, members in groups.items()]
    found.sort(key=lambda one: (-len(one.pods), one.reasons))
    return WaitingPods(groups=tuple(found), others=others)


def _reasons(facts: PodFacts) -> tuple[str, ...]:
    if facts.standing == GATED:
        return tuple(f"scheduling gate {gate}" for gate in facts.gates)
    if not facts.message:
        return (f"no answer of {facts.scheduler} yet",)
    by_count = sorted(facts.reasons, key=lambda one: (-one.count, one.text))
    texts = (_NUMBERS.sub("", one.text) if one.count else one.text for one in by_count)
    return tuple(dict.fromkeys(texts))[:REASONS_MAX]


def _group(reasons: tuple[str, ...], members: Sequence[tuple[Pod, PodFacts]]) -> WaitingGroup:
    ordered = sorted(members, key=lambda one: (one[0].created, one[0].key))
    codes = [reason.code for _, facts in ordered[:1] for reason in facts.reasons]
    return WaitingGroup(
        reasons=reasons,
        codes=meanings(codes),
        pods=tuple(
            WaitingPod(
                namespace=pod.namespace,
                pod=pod.name,
                owner=f"{pod.owner.word}/{pod.owner.name}" if pod.owner else "",
                asks=facts.asks,
                since=pod.created,
                message=facts.message,
                notices=facts.notices,
            )
            for pod, facts in ordered
        ),
    )


def render(found: WaitingPods, now: datetime, *, wide: bool) -> RenderableType:
    """One block per group: the reasons, the pods, what to do."""
    if not found.groups:
        others = f" ({found.others} have a node, have ended or ask for no GPU)"
        line = "no pod waits" + (others if found.others else "")
        return Group(line, *map(plain, found.remarks))
    parts: list[RenderableType] = []
    for group in found.groups:
        parts += [*([""] if parts else []), *_block(group, now, wide=wide)]
    if found.more:
        parts += titled(MORE, Group(*map(plain, found.more)))
    return Group(*parts, *([""] if found.remarks else []), *map(plain, found.remarks))


def _block(group: WaitingGroup, now: datetime, *, wide: bool) -> Iterable[RenderableType]:
    count = len(group.pods)
    head = f"{count} pod{'s' * (count > 1)}: {'; '.join(group.reasons)}"
    yield Text(plain(head).plain, style="bold")
    if group.outlook is not None:
        yield indented(plain(f"the oldest {verdict(group.outlook)}"))
    shown = group.pods if wide else group.pods[:PODS_MAX]
    table = headed("POD", "ASKS", "AGE")
    for pod in shown:
        asks = " ".join(f"{n} {name}" for name, n in pod.asks.items() if "/" in name or wide)
        table.add_row(plain(f"{pod.namespace}/{pod.pod}"), plain(asks or "-"), age(pod.since, now))
    yield indented(table)
    if count > len(shown):
        yield indented(plain(f"and {count - len(shown)} more (-o wide)"))
    grid = Table.grid(padding=(0, 2))
    for line in _steps(group):
        grid.add_row("->", plain(line))
    yield indented(grid)


def _steps(group: WaitingGroup) -> list[str]:
    about = of_message(parts(group.pods[0].message))
    mistakes = dict.fromkeys(text for pod in group.pods for text in pod.notices)
    return [*islice(mistakes, STEPS_MAX), *steps(group.outlook, group.codes, group.codes, about)]
