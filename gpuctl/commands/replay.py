"""``gpuctl replay``: repeats the decisions of a snapshot and compares them byte for byte.

A snapshot contains the scheduler's state at one instant and its decisions on that state. The same
code runs here on the restored state, so a difference is a code change or a bug.
"""

from __future__ import annotations

import sys

import click

from gpuctl import snapshots
from gpuctl.command import Strict
from gpuctl.output import replay as output_of_replay
from gpuctl.output.replay import ReplayedPod
from scheduler.decide.explain import explain
from scheduler.decide.gang.decisions import Decisions
from scheduler.decide.score_breakdown import rank
from scheduler.framework.decision import Placement
from scheduler.plugins import default_pipeline
from scheduler.report.decisions.api_types import Snapshot
from scheduler.state.snapshot import restore


@click.command(cls=Strict)
@click.argument("file", metavar="FILE")
@click.option("--pod", metavar="POD", help="only this pending pod, or TYPE/NAME, with every node")
@click.option("-n", "--namespace", metavar="NS", help="of that pod  [default: any]")
@click.option("--check", is_flag=True, help="exit with status 1 if a decision differs")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def replay(file: str, pod: str | None, namespace: str | None, check: bool, output: str) -> None:
    """Repeat the decisions on the pending pods of a snapshot, on exactly its state.

    FILE is the output of "gpuctl snapshot"; "-" is the standard input. The command does not access
    a cluster.
    """
    snapshot = snapshots.read(file)
    replayed = replay_pods(snapshot, pod, namespace)
    if output == "json":
        click.echo(output_of_replay.as_json(replayed))
    else:
        output_of_replay.show_replay(snapshot, replayed, in_full=pod is not None)
    if check and any(one.then is not None and not one.is_same for one in replayed):
        sys.exit(1)


def replay_pods(
    snapshot: Snapshot, only: str | None = None, namespace: str | None = None
) -> list[ReplayedPod]:
    """Decide again every pending pod that the snapshot has a decision on, or those that ``only``
    names.
    """
    cluster, pipeline = restore(snapshot.state), default_pipeline(snapshot.settings)
    then = {decided.uid: decided.outcome for decided in snapshot.pending}
    if only is not None:
        pods = snapshots.pending_pods(snapshot, only, namespace)
    else:
        pods = [queued.pod for queued in snapshot.state.queue if queued.pod.uid in then]
    decisions, replayed = Decisions(cluster, pipeline), list[ReplayedPod]()
    for pod in pods:
        decision = decisions.of(pod)
        ranked = isinstance(decision, Placement) and rank(cluster, decision, pipeline)
        replayed.append(
            ReplayedPod(
                pod=pod.key,
                uid=pod.uid,
                then=then.get(pod.uid),
                now=explain(decision),
                ranking=ranked or None,
            )
        )
    return replayed
