"""``gpuctl why``: explains why pods are pending, or why a pod is on its node.

The pod's object and its events need no more than the right to read them. The leader's decisions
API, if reachable, adds the present answer: every node's, what would help, the tiers that were tried
and the scores. Without the rights to reach it the aggregated decisions API adds it, if enabled.

Exit status 0: no pod is pending. 2: one is. 1: an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
import time
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Final

import click
import msgspec
from rich.console import Group, RenderableType

from gpuctl import cluster_access
from gpuctl.cluster_access import Access
from gpuctl.input_error import NotReached
from gpuctl.options import WATCH_S, Strict, UsageError, output_format, reaching, scoped
from gpuctl.our_scheduler import our_scheduler
from gpuctl.output import formats, table, waiting
from gpuctl.output.waiting import WaitingPods
from gpuctl.output.why import Why, rendered
from gpuctl.pods import pod_answers
from gpuctl.pods.pod_completion import complete_pods
from gpuctl.pods.pod_facts import PodFacts, read_pod_facts
from gpuctl.targets import POD_KIND, Scope, Target, failed_creations, parse, pods_of
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.standing import GATED, PLACED, WAITS
from scheduler.report.decisions.api_types import PodAnswer
from scheduler.watch.client import Client

PENDING: Final = 2
#: The groups whose oldest pod the decisions API is asked about.
GROUPS_ASKED_MAX: Final = 8


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks."""

    words: tuple[str, ...]
    scope: Scope
    access: Access
    server: str | None
    forward: bool
    output: str


@click.command(cls=Strict)
@click.argument("pods", metavar="[POD|TYPE/NAME]...", nargs=-1, shell_complete=complete_pods)
@scoped
@output_format("table", "wide", "json", "yaml")
@click.option("-w", "--watch", is_flag=True, help="repeat until no pod waits")
@click.option("--forward/--no-forward", default=True, help="run kubectl port-forward to the leader")
@reaching
def why(
    access: Access,
    server: str | None,
    pods: tuple[str, ...],
    scope: Scope,
    output: str,
    watch: bool,
    forward: bool,
) -> None:
    """Explain why POD is pending or why it is on its node, and what to do next.

    Without a name: every pod that waits, grouped by reason. TYPE/NAME is a pod or an owner, as
    deploy/web, job/train or sts/db.

    The right to read pods and events in the namespace is enough. The decisions API adds details:
    at --server, or through kubectl port-forward if your rights allow it.

    Exit status: 0 no pod is pending, 2 a pod is, 1 an error.
    """
    if watch and output not in ("table", "wide"):
        raise UsageError("--watch prints a table only", click.get_current_context())
    asked = Question(
        words=pods, scope=scope, access=access, server=server, forward=forward, output=output
    )
    found = asyncio.run(_answer(asked))
    _write(found, output)
    while watch and _waits(found):
        time.sleep(WATCH_S)
        before, found = found, asyncio.run(_answer(asked))
        if found != before:
            click.clear()
            _write(found, output)
    sys.exit(PENDING if _waits(found) else 0)


def _waits(found: Why | WaitingPods) -> bool:
    return found.waits if isinstance(found, Why) else bool(found.groups)


async def _answer(asked: Question) -> Why | WaitingPods:
    """One pod in full; several, and those of an owner, grouped by reason."""
    targets = [parse(word) for word in asked.words]
    if len(targets) == 1 and targets[0].kind == POD_KIND and not asked.scope.all_namespaces:
        return await _explain(asked, targets[0])
    async with cluster_access.cluster(asked.access) as client:
        try:
            pods = await pods_of(client, asked.access, asked.scope, asked.words)
        except NotReached as error:
            space = await asked.scope.space(asked.access)
            raise await failed_creations(client, space, targets, error) from None
        # For programs the shape of the answer does not depend on the number of pods.
        if len(pods) == 1 and targets and asked.output in ("table", "wide"):
            scheduler = await our_scheduler(client, asked.access, asked.server)
            facts = await read_pod_facts(client, pods[0].namespace, pods[0].name, scheduler)
            return await _with_decisions(asked, client, facts)
        return await _grouped(asked, client, pods)


async def _grouped(asked: Question, client: Client, pods: list[Pod]) -> WaitingPods:
    """The pods that wait; the decisions API explains the oldest of each group."""
    scheduler = await our_scheduler(client, asked.access, asked.server)
    found = waiting.waiting_pods(pods, is_named=bool(asked.words), scheduler=scheduler)
    remarks: list[str] = []
    more: tuple[str, ...] = ()
    groups = list(found.groups)
    leader = None if asked.server else await cluster_access.leader_pod(client, asked.access)
    try:
        async with _leader_url(asked, client, leader, wanted=bool(groups)) as url:
            for at, group in enumerate(groups[:GROUPS_ASKED_MAX]):
                oldest = group.pods[0]
                with contextlib.suppress(NotReached):  # not of this scheduler, or placed meanwhile
                    answer = await _present(client, url, oldest.namespace, oldest.pod)
                    if answer is not None:
                        groups[at] = msgspec.structs.replace(group, outlook=answer.outlook)
            if groups and url is None and not any(group.outlook for group in groups):
                more = cluster_access.by_hand(asked.access, leader, _command(asked))
            elif len(groups) > GROUPS_ASKED_MAX:
                left_out = len(groups) - GROUPS_ASKED_MAX
                remarks.append(
                    f"the leader was asked about the {GROUPS_ASKED_MAX} largest groups;"
                    f" {left_out} more: name a pod of them"
                )
    except NotReached as error:
        remarks.append(str(error))
    return msgspec.structs.replace(found, groups=tuple(groups), remarks=tuple(remarks), more=more)


def _command(asked: Question) -> str:
    """The command line without the options that select a cluster."""
    scope = asked.scope
    words = ["gpuctl", "why", *asked.words]
    words += ["-A"] * scope.all_namespaces + (["-n", scope.namespace] if scope.namespace else [])
    return shlex.join([*words, *(["-l", scope.selector] if scope.selector else [])])


async def _explain(asked: Question, target: Target) -> Why:
    scope, name, server = asked.scope, target.name, asked.server
    if target.namespace and scope.namespace not in (None, target.namespace):
        both = f"{target.namespace}/{name} and --namespace {scope.namespace}"
        raise UsageError(f"{both} are different namespaces")
    named = target.namespace or scope.namespace
    try:
        async with cluster_access.cluster(asked.access) as client:
            space = named or cluster_access.default_namespace(asked.access)
            scheduler = await our_scheduler(client, asked.access, server)
            facts = await read_pod_facts(client, space, name, scheduler)
            return await _with_decisions(asked, client, facts)
    except NotReached as error:
        if server is None:
            raise
        remark = f"the pod itself cannot be read: {error}"
        answer = await pod_answers.of_leader(server, named or "default", name, because=f"{error}; ")
        waits = answer.waiting is not None
        space = answer.namespace
        return Why(namespace=space, pod=name, waits=waits, answer=answer, remarks=(remark,))


async def _with_decisions(asked: Question, client: Client, facts: PodFacts) -> Why:
    """The pod's facts, and the decisions API's answer if it is reachable."""
    remarks = list(facts.remarks)
    # The scheduler holds no decision on a gated pod, nor on a pod that has ended.
    is_live = facts.standing in (PLACED, WAITS)
    leader = None if asked.server else await cluster_access.leader_pod(client, asked.access)
    answer: PodAnswer | None = None
    can_forward = True
    try:
        async with _leader_url(asked, client, leader, wanted=is_live) as url:
            if is_live:
                answer = await _present(client, url, facts.namespace, facts.pod)
    except NotReached as error:
        can_forward = not isinstance(error, cluster_access.LeaderIsNoPod)
        remarks.append(str(error))
    if answer is not None and not answer.leads:
        remarks.append("this replica is not the leader; the leader may know more")
    command = shlex.join(["gpuctl", "why", facts.pod, "-n", facts.namespace])
    return Why(
        namespace=facts.namespace,
        pod=facts.pod,
        waits=facts.standing in (WAITS, GATED),
        witness=facts,
        answer=answer,
        remarks=tuple(remarks),
        more=cluster_access.by_hand(asked.access, leader, command)
        if is_live and can_forward and answer is None
        else (),
    )


async def _present(client: Client, url: str | None, namespace: str, name: str) -> PodAnswer | None:
    """The leader's answer, else the API server's; None if neither can be asked."""
    if url is not None:
        return await pod_answers.of_leader(url, namespace, name)
    return await pod_answers.of_api_server(client, namespace, name)


def _leader_url(
    asked: Question, client: Client, leader: str | None, *, wanted: bool
) -> AbstractAsyncContextManager[str | None]:
    """The URL of the decisions API while it is forwarded, or None if it is not reachable."""
    to = leader if asked.forward and wanted else None
    return cluster_access.url_of(asked.access, client, asked.server, to)


def _write(found: Why | WaitingPods, output: str) -> None:
    if output in ("json", "yaml"):
        formats.write(output, found)
    else:
        table.show(_text(found, wide=output == "wide"))


def _text(found: Why | WaitingPods, *, wide: bool) -> RenderableType:
    now = datetime.now(UTC)
    if isinstance(found, WaitingPods):
        return waiting.render(found, now, wide=wide)
    return Group(*rendered(found, now, wide=wide))
