"""``gpuctl defrag``: which pods would have to be restarted so that a MIG instance fits.

The plan is made here, by the scheduler's own code, on a snapshot of its state. Nothing happens to
anybody unless ``--execute`` is given and confirmed, or ``--yes``: then the pods of the plan are
evicted through the Eviction API, by the rights of whoever runs this, and their controllers make
new ones. The first refusal (a PodDisruptionBudget's, say) ends it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Final

import click

from gpuctl import cluster_access, defrag_output, table
from gpuctl.cluster_access import Access, NotReached
from gpuctl.manifests import InputError
from gpuctl.options import Strict, UsageError, reaching
from gpuctl.replay import decoded, read
from gpuctl.simulate import explained
from gpuctl.snapshot import fetched
from scheduler.bind.evictor import request_eviction
from scheduler.decide.migration.defrag import Plan, plan
from scheduler.model.mig.layout import profile_of
from scheduler.model.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.report.decisions.api_types import Snapshot
from scheduler.state.cache.cluster import Cluster
from scheduler.state.event import Eviction
from scheduler.state.snapshot import restore

#: More restarts than two gain next to nothing (measured in bench/mig.py).
MOVES_MAX: Final = 4
#: Controllers that make a pod again without counting it as a failure.
MOVABLE: Final = ("ReplicaSet", "StatefulSet")
NO_PLAN: Final = 2


@click.command(cls=Strict)
@click.argument("pod", metavar="NAMESPACE/POD")
@click.option("--from", "file", metavar="FILE", help="a file of gpuctl snapshot; asks no cluster")
@click.option(
    "--moves",
    type=click.IntRange(1, MOVES_MAX),
    default=1,
    show_default=True,
    help="the most pods that may be restarted",
)
@click.option("--dry-run", is_flag=True, help="only say what would be done  [default]")
@click.option("--execute", is_flag=True, help="evict the pods of the plan, after a question")
@click.option("--yes", is_flag=True, help="with --execute: do not ask")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@reaching
def defrag(
    access: Access,
    server: str | None,
    pod: str,
    file: str | None,
    moves: int,
    dry_run: bool,
    execute: bool,
    yes: bool,
    output: str,
) -> None:
    """Find the cheapest moves after which a waiting pod's MIG instance fits.

    Cheapest is: the fewest restarts, then the fewest slices moved. Exit status 2 if there is no
    plan. Only pods of ReplicaSets and StatefulSets are moved, because others are not made again.
    """
    if execute and (dry_run or file is not None):
        other = "--dry-run" if dry_run else "--from"
        raise UsageError(f"--execute and {other} exclude each other")
    with explained():
        try:
            snapshot = (
                read(file)
                if file is not None
                else decoded(asyncio.run(fetched(access, server)), "the answer")
            )
            found = planned(snapshot, pod, moves, time.time())
            if output == "json":
                click.echo(defrag_output.as_json(found))
            else:
                table.show(defrag_output.told(found))
            if execute and found.moves:
                _confirm(found, yes)
                asyncio.run(_evict(access, found))
        except NotReached as error:
            click.echo(f"gpuctl defrag: {error}", err=True)
            sys.exit(1)


def planned(snapshot: Snapshot, key: str, moves: int, now: float) -> Plan:
    """The plan for a waiting pod; Mistake where it does not wait, exit 2 where there is none."""
    cluster = restore(snapshot.state)
    waiting = {one.pod.key: one.pod for one in snapshot.state.queue}
    if key not in waiting:
        shown = ", ".join(sorted(waiting)[:5]) or "nobody"
        raise InputError(f"no pod {key} waits (who does: {shown})")
    found = plan(
        cluster,
        waiting[key],
        default_pipeline(snapshot.settings),
        moves_max=moves,
        may_move=_may_move(snapshot.settings.scheduler_name),
        now=now,
    )
    if found is None:
        click.echo(f"gpuctl defrag: {_why_not(cluster, waiting[key], moves)}", err=True)
        sys.exit(NO_PLAN)
    return found


def _may_move(scheduler_name: str) -> Callable[[Pod], bool]:
    return lambda pod: (
        pod.scheduler_name == scheduler_name and pod.owner is not None and pod.owner.word in MOVABLE
    )


def _why_not(cluster: Cluster, pod: Pod, moves: int) -> str:
    """With numbers, because "no plan" alone leaves one to guess."""
    wanted = {name: count for name, count in pod.gpu_requests.items() if "mig-" in name}
    if sum(wanted.values()) != 1:
        return (
            f"{pod.key} does not ask for exactly one MIG instance; only such pods are planned for"
        )
    (resource,) = wanted
    gpus = [node_info.gpus for node_info in cluster.candidates() if node_info.gpus is not None]
    if not gpus:
        return (
            f"no node's GPUs are cut to order (label gpu-scheduler.io/mig-dynamic=true), so nothing"
            f" can be rearranged for {pod.key}"
        )
    free = sum(one.free_slices for one in gpus)
    found = (profile_of(one.board, resource) for one in gpus)
    size = min((profile.size for profile in found if profile is not None), default=0)
    if not size:
        return f"no GPU that is cut to order has the profile that {pod.key} asks for ({resource})"
    return (
        f"no plan for {pod.key} with at most {moves} restart{'s' if moves > 1 else ''}: it needs"
        f" {size} slices in one piece, {free} are free on {sum(len(one.held) for one in gpus)} GPUs"
        f"{'; --moves ' + str(moves + 1) + ' may find one' if size <= free and moves < 2 else ''}"
    )


# --- what is done -----------------------------------------------------------------------------


def _confirm(found: Plan, yes: bool) -> None:
    if yes:
        return
    pods = ", ".join(move.pod.key for move in found.moves)
    if not click.confirm(f"evict {pods}?", err=True):
        click.echo("gpuctl defrag: nothing was evicted", err=True)
        sys.exit(1)


async def _evict(access: Access, found: Plan) -> None:
    """One after the other; whoever is refused ends it."""
    async with cluster_access.cluster(access) as client:
        for done, move in enumerate(found.moves):
            pod = move.pod
            result, message = await request_eviction(client, pod.namespace, pod.name, pod.uid)
            if result in (Eviction.FORBIDDEN, Eviction.FAILED):
                raise NotReached(
                    f"{pod.key} was not evicted: {message}; {done} of {found.restarts} were"
                )
            word = "is gone already" if result is Eviction.GONE else "evicted"
            click.echo(f"{pod.key} {word}", err=True)
