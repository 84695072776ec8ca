"""``gpuctl defrag``: finds the pods to restart so that a pending pod's MIG instance fits.

The scheduler's own code computes the plan on a snapshot of its state. The command only evicts pods
with ``--execute``, after a confirmation or with ``--yes``. It uses the Eviction API with the rights
of the user, and the pods' controllers create new pods. It stops at the first rejected eviction, for
example because of a PodDisruptionBudget, and where the rest of the plan does not hold any more.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Callable
from typing import Final

import click

from gpuctl import cluster_access, snapshots
from gpuctl.cluster_access import Access
from gpuctl.command import note
from gpuctl.defrag_progress import POLL_S, STEP_MAX_S, NotYet, Placed, Ready, Replan, next_step
from gpuctl.input_error import InputError, NotReached
from gpuctl.options import Strict, UsageError, reaching
from gpuctl.output import defrag as defrag_output
from gpuctl.output import table
from gpuctl.pods.pod_completion import complete_pods
from scheduler.bind.evictor import request_eviction
from scheduler.decide.migration.defrag import plan
from scheduler.decide.migration.defrag_plan import Plan
from scheduler.decide.migration.preconditions import consent_blocker
from scheduler.model.mig.layout import profile_of
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.report.decisions.api_types import Snapshot
from scheduler.state.cache.cluster import Cluster
from scheduler.state.event import Eviction
from scheduler.state.snapshot import restore

#: More than two restarts rarely help (measured in bench/mig).
MOVES_MAX: Final = 4
#: Controllers that recreate a pod without counting a failure.
MOVABLE: Final = ("ReplicaSet", "StatefulSet")
NO_PLAN: Final = 2


@click.command(cls=Strict)
@click.argument("pod", metavar="POD", shell_complete=complete_pods)
@click.option("-n", "--namespace", metavar="NS", help="namespace of the pod  [default: any]")
@click.option(
    "--from", "file", metavar="FILE", help="a file of gpuctl snapshot instead of a cluster"
)
@click.option(
    "--moves",
    type=click.IntRange(1, MOVES_MAX),
    default=2,
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
    namespace: str | None,
    file: str | None,
    moves: int,
    dry_run: bool,
    execute: bool,
    yes: bool,
    output: str,
) -> None:
    """Find the cheapest pod restarts after which a pending pod's MIG instance fits.

    The cheapest plan has the fewest restarts, then leaves the most room for other pods. Only pods
    of ReplicaSets and StatefulSets are moved, because their controllers recreate them. A pod with
    the annotation gpu-scheduler.io/restore: never is not moved.

    Exit status: 2 if no plan exists.
    """
    if execute and (dry_run or file is not None):
        other = "--dry-run" if dry_run else "--from"
        raise UsageError(f"--execute and {other} exclude each other")
    words = ["gpuctl", "defrag", pod, *(["-n", namespace] if namespace else [])]
    again = shlex.join(words)
    snapshot = snapshots.read(file) if file is not None else _fetch(access, server, again)
    chosen = plan_for(snapshot, _pending(snapshot, pod, namespace), moves, time.time())
    if output == "json":
        click.echo(defrag_output.as_json(chosen))
    else:
        table.show(defrag_output.render(chosen))
    if execute and chosen.moves:
        _confirm(chosen, yes)
        _carry_out(access, server, snapshot, chosen)


def _pending(snapshot: Snapshot, word: str, namespace: str | None) -> Pod:
    """The one pending pod that the word names; the first of an owner's, which are alike."""
    found = snapshots.pending_pods(snapshot, word, namespace)
    if len({pod.workload for pod in found}) > 1:
        keys = ", ".join(pod.key for pod in found)
        raise InputError(f"{word} names several pending pods: {keys}; pass -n NS")
    return found[0]


def plan_for(snapshot: Snapshot, pod: Pod, moves: int, now: float) -> Plan:
    """The plan for a pending pod; exit status 2 without a plan."""
    cluster = restore(snapshot.state)
    cheapest = _replan(snapshot, now)(cluster, pod, moves)
    if cheapest is None:
        note(_why_not(cluster, pod, moves))
        sys.exit(NO_PLAN)
    return cheapest


def _replan(snapshot: Snapshot, now: float) -> Replan:
    pipeline = default_pipeline(snapshot.settings)
    may_move = _may_move(snapshot.settings.scheduler_name)
    return lambda cluster, pod, moves: plan(
        cluster, pod, pipeline, moves_max=moves, may_move=may_move, now=now
    )


def _may_move(scheduler_name: str) -> Callable[[Pod], bool]:
    return lambda pod: (
        pod.scheduler_name == scheduler_name
        and pod.owner is not None
        and pod.owner.word in MOVABLE
        and consent_blocker(pod) is None
    )


def _why_not(cluster: Cluster, pod: Pod, moves: int) -> str:
    """The reason for the missing plan, with numbers."""
    requested = {name: count for name, count in pod.gpu_requests.items() if "mig-" in name}
    if sum(requested.values()) != 1:
        return f"{pod.key} does not request exactly one MIG instance; only such pods can be planned"
    (resource,) = requested
    gpus = [node_info.gpus for node_info in cluster.candidates() if node_info.gpus is not None]
    if not gpus and any(one.dra and resource in one.dra.profiles for one in cluster.candidates()):
        return (
            f"{resource} are partitions of a DRA driver: only instances on nodes with dynamic MIG"
            f" can be moved for {pod.key}"
        )
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
    hint = f"; --moves {moves + 1} may find one" if size <= free and moves < MOVES_MAX else ""
    return (
        f"no plan for {pod.key} with at most {moves} restart{'s' if moves > 1 else ''}: it needs"
        f" {size} contiguous slices, {free} are free on {count} GPUs{hint}"
    )


# --- execution --------------------------------------------------------------------------------


def _confirm(chosen: Plan, yes: bool) -> None:
    if yes:
        return
    pods = ", ".join(move.pod.key for move in chosen.moves)
    if not click.confirm(f"evict {pods}?", err=True):
        note("no pod was evicted")
        sys.exit(1)


def _carry_out(access: Access, server: str | None, snapshot: Snapshot, chosen: Plan) -> None:
    """Evict the pods in order: of a certain plan one after the other, else all at once.

    Stops at the first rejected eviction, and where the rest of the plan does not hold any more.
    """
    at_start = restore(snapshot.state)
    for done, move in enumerate(chosen.moves):
        if done and chosen.is_certain and not _is_next(access, server, chosen, done, at_start):
            return
        asyncio.run(_evict(access, chosen, done, move.pod))


def _is_next(
    access: Access, server: str | None, chosen: Plan, done: int, at_start: Cluster
) -> bool:
    """Wait until the next pod may be evicted; False if the waiting pod is placed already."""
    latest, step = time.monotonic() + STEP_MAX_S, NotYet("")
    while time.monotonic() < latest:
        try:
            snapshot = _fetch(access, server, shlex.join(["gpuctl", "defrag", chosen.pod.key]))
        except NotReached as error:  # the scheduler may be restarting
            found: Ready | NotYet | Placed = NotYet(str(error))
        else:
            cluster = restore(snapshot.state)
            queued = (one.pod for one in snapshot.state.queue if one.pod.uid == chosen.pod.uid)
            replan = _replan(snapshot, time.time())
            found = next_step(chosen, done, at_start, cluster, next(queued, None), replan)
        if not isinstance(found, NotYet):
            return isinstance(found, Ready)
        step = found
        time.sleep(POLL_S)
    raise NotReached(
        f"stopped after {done} of {chosen.restarts} restarts, no other pod was evicted: {step.text}"
    )


def _fetch(access: Access, server: str | None, command: str) -> Snapshot:
    """The leader's snapshot; ``command`` is the command line for an administrator."""
    return snapshots.decode(asyncio.run(snapshots.fetch(access, server, command)), "the answer")


async def _evict(access: Access, chosen: Plan, done: int, pod: Pod) -> None:
    async with cluster_access.cluster(access) as client:
        result, message = await request_eviction(client, pod.namespace, pod.name, pod.uid)
    if result in (Eviction.FORBIDDEN, Eviction.FAILED):
        raise NotReached(f"{pod.key} was not evicted: {message}; {done} of {chosen.restarts} were")
    word = "is gone already" if result is Eviction.GONE else "evicted"
    click.echo(f"{pod.key} {word}", err=True)
