"""``gpuctl defrag``: finds the pods to restart so that a pending pod's MIG instance fits.

The scheduler's own code computes the plan on a snapshot of its state. The command only evicts pods
with ``--execute``, after a confirmation or with ``--yes``. It uses the Eviction API with the rights
of the user, and the pods' controllers create new pods. It stops at the first rejected eviction, for
example because of a PodDisruptionBudget.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Final

import click

from gpuctl import cluster_access, snapshots
from gpuctl.cluster_access import Access, NotReached
from gpuctl.input_error import InputError, exit_on_input_error
from gpuctl.options import Strict, UsageError, reaching
from gpuctl.output import defrag as defrag_output
from gpuctl.output import table
from scheduler.bind.evictor import request_eviction
from scheduler.decide.migration.defrag import Plan, plan
from scheduler.model.mig.layout import profile_of
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.report.decisions.api_types import Snapshot
from scheduler.state.cache.cluster import Cluster
from scheduler.state.event import Eviction
from scheduler.state.snapshot import restore

#: More than two restarts rarely help (measured in bench/mig.py).
MOVES_MAX: Final = 4
#: Controllers that recreate a pod without counting a failure.
MOVABLE: Final = ("ReplicaSet", "StatefulSet")
NO_PLAN: Final = 2


@click.command(cls=Strict)
@click.argument("pod", metavar="NAMESPACE/POD")
@click.option(
    "--from", "file", metavar="FILE", help="a file of gpuctl snapshot instead of a cluster"
)
@click.option(
    "--moves",
    type=click.IntRange(1, MOVES_MAX),
    default=1,
    show_default=True,
    help="maximum number of pods to restart",
)
@click.option("--dry-run", is_flag=True, help="only print the plan  [default]")
@click.option("--execute", is_flag=True, help="evict the pods of the plan, after a confirmation")
@click.option("--yes", is_flag=True, help="with --execute: skip the confirmation")
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
    """Find the cheapest pod restarts after which a pending pod's MIG instance fits.

    The cheapest plan has the fewest restarts, then moves the fewest slices. Only pods of
    ReplicaSets and StatefulSets are moved, because their controllers recreate them.

    Exit status: 2 if no plan exists.
    """
    if execute and (dry_run or file is not None):
        other = "--dry-run" if dry_run else "--from"
        raise UsageError(f"--execute and {other} exclude each other")
    with exit_on_input_error():
        try:
            if file is not None:
                snapshot = snapshots.read(file)
            else:
                content = asyncio.run(snapshots.fetch(access, server))
                snapshot = snapshots.decode(content, "the answer")
            chosen = plan_for(snapshot, pod, moves, time.time())
            if output == "json":
                click.echo(defrag_output.as_json(chosen))
            else:
                table.show(defrag_output.render(chosen))
            if execute and chosen.moves:
                _confirm(chosen, yes)
                asyncio.run(_evict(access, chosen))
        except NotReached as error:
            click.echo(f"gpuctl defrag: {error}", err=True)
            sys.exit(1)


def plan_for(snapshot: Snapshot, key: str, moves: int, now: float) -> Plan:
    """The plan for a pending pod; InputError if it is not pending, exit status 2 without a plan."""
    cluster = restore(snapshot.state)
    pending = {queued.pod.key: queued.pod for queued in snapshot.state.queue}
    if key not in pending:
        shown = ", ".join(sorted(pending)[:5]) or "none"
        raise InputError(f"pod {key} is not pending (pending pods: {shown})")
    cheapest = plan(
        cluster,
        pending[key],
        default_pipeline(snapshot.settings),
        moves_max=moves,
        may_move=_may_move(snapshot.settings.scheduler_name),
        now=now,
    )
    if cheapest is None:
        click.echo(f"gpuctl defrag: {_why_not(cluster, pending[key], moves)}", err=True)
        sys.exit(NO_PLAN)
    return cheapest


def _may_move(scheduler_name: str) -> Callable[[Pod], bool]:
    return lambda pod: (
        pod.scheduler_name == scheduler_name and pod.owner is not None and pod.owner.word in MOVABLE
    )


def _why_not(cluster: Cluster, pod: Pod, moves: int) -> str:
    """The reason for the missing plan, with numbers."""
    requested = {name: count for name, count in pod.gpu_requests.items() if "mig-" in name}
    if sum(requested.values()) != 1:
        return f"{pod.key} does not request exactly one MIG instance; only such pods can be planned"
    (resource,) = requested
    gpus = [node_info.gpus for node_info in cluster.candidates() if node_info.gpus is not None]
    if not gpus:
        return (
            "no node has dynamic MIG (label gpu-scheduler.io/mig-dynamic=true), so no instance can"
            f" be moved for {pod.key}"
        )
    free = sum(gpus_of_node.free_slices for gpus_of_node in gpus)
    count = sum(len(gpus_of_node.held) for gpus_of_node in gpus)
    profiles = (profile_of(gpus_of_node.gpu_model, resource) for gpus_of_node in gpus)
    size = min((profile.size for profile in profiles if profile is not None), default=0)
    if not size:
        return f"no GPU with dynamic MIG has the profile that {pod.key} requests ({resource})"
    return (
        f"no plan for {pod.key} with at most {moves} restart{'s' if moves > 1 else ''}: it needs"
        f" {size} contiguous slices, {free} are free on {count} GPUs"
        f"{'; --moves ' + str(moves + 1) + ' may find one' if size <= free and moves < 2 else ''}"
    )


# --- execution --------------------------------------------------------------------------------


def _confirm(chosen: Plan, yes: bool) -> None:
    if yes:
        return
    pods = ", ".join(move.pod.key for move in chosen.moves)
    if not click.confirm(f"evict {pods}?", err=True):
        click.echo("gpuctl defrag: no pod was evicted", err=True)
        sys.exit(1)


async def _evict(access: Access, chosen: Plan) -> None:
    """Evict the pods in order; stop at the first rejected eviction."""
    async with cluster_access.cluster(access) as client:
        for done, move in enumerate(chosen.moves):
            pod = move.pod
            result, message = await request_eviction(client, pod.namespace, pod.name, pod.uid)
            if result in (Eviction.FORBIDDEN, Eviction.FAILED):
                raise NotReached(
                    f"{pod.key} was not evicted: {message}; {done} of {chosen.restarts} were"
                )
            word = "is gone already" if result is Eviction.GONE else "evicted"
            click.echo(f"{pod.key} {word}", err=True)
