"""``gpuctl replay``: repeats the decisions of a snapshot and compares them byte for byte.

A snapshot contains the scheduler's state at one instant and its decisions on that state. The same
code runs here on the restored state, so a difference is a code change or a bug.
"""

from __future__ import annotations

import sys
from typing import Final

import click

from gpuctl import snapshots
from gpuctl.input_error import InputError, exit_on_input_error
from gpuctl.output import replay as output_of_replay
from gpuctl.output.replay import ReplayedPod
from scheduler.decide.explain import explain
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.score_breakdown import rank
from scheduler.framework.decision import Placement
from scheduler.plugins import default_pipeline
from scheduler.report.decisions.api_types import Snapshot
from scheduler.state.snapshot import restore

PODS_SHOWN_MAX: Final = 5


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--pod", metavar="NAMESPACE/NAME", help="only this pending pod, with every node")
@click.option("--check", is_flag=True, help="exit with status 1 if a decision differs")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def replay(file: str, pod: str | None, check: bool, output: str) -> None:
    """Repeat the decisions on the pending pods of a snapshot, on exactly its state.

    FILE is the output of "gpuctl snapshot"; "-" is the standard input. The command does not access
    a cluster.
    """
    with exit_on_input_error():
        snapshot = snapshots.read(file)
        replayed = replay_pods(snapshot, pod)
        if pod is not None and not replayed:
            raise InputError(f"{file}: no pod {pod} waits in this snapshot{_pending(snapshot)}")
    if output == "json":
        click.echo(output_of_replay.as_json(replayed))
    else:
        output_of_replay.show_replay(snapshot, replayed, in_full=pod is not None)
    if check and any(one.then is not None and not one.is_same for one in replayed):
        sys.exit(1)


def replay_pods(snapshot: Snapshot, only: str | None = None) -> list[ReplayedPod]:
    """Decide again every pending pod that the snapshot has a decision on, or the ``only`` one."""
    cluster, pipeline = restore(snapshot.state), default_pipeline(snapshot.settings)
    then = {decided.uid: decided.outcome for decided in snapshot.pending}
    replayed: list[ReplayedPod] = []
    for queued in snapshot.state.queue:
        pod = queued.pod
        if pod.key != only if only is not None else pod.uid not in then:
            continue
        decision = schedule_one(cluster, pod, pipeline)
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


def _pending(snapshot: Snapshot) -> str:
    keys = sorted(queued.pod.key for queued in snapshot.state.queue)
    if not keys:
        return "; no pod does"
    more = " ..." if len(keys) > PODS_SHOWN_MAX else ""
    return f"; {len(keys)} do: {', '.join(keys[:PODS_SHOWN_MAX])}{more}"
