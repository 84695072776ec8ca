"""``gpuctl replay``: decide again what a snapshot holds, and compare byte for byte.

The snapshot carries one instant of the state and what the scheduler decided on it. The same code
runs here on the restored state, so whatever differs is a change of the code or a bug.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from gpuctl.manifests import STDIN, InputError
from gpuctl.simulate import explained
from scheduler.decide.explain import Outcome, explain
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.score_breakdown import Ranking, rank
from scheduler.framework.decision import Placement
from scheduler.plugins import default_pipeline
from scheduler.report.decisions.api_types import API_VERSION, SNAPSHOT_VERSION, Snapshot
from scheduler.state.snapshot import restore


class Replayed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One pod, then and now; ``then`` is None where nothing was decided for the snapshot."""

    pod: str
    uid: str
    then: Outcome | None = None
    now: Outcome
    ranking: Ranking | None = None

    @property
    def is_same(self) -> bool:
        """Whether both decisions are the same bytes."""
        return self.then is not None and msgspec.json.encode(self.then) == msgspec.json.encode(
            self.now
        )


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--pod", metavar="NAMESPACE/NAME", help="only this waiting pod, with every node")
@click.option("--check", is_flag=True, help="exit status 1 if any decision differs")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def replay(file: str, pod: str | None, check: bool, output: str) -> None:
    """Decide again about the pods that wait in a snapshot, on exactly its state.

    FILE is what "gpuctl snapshot" wrote; "-" is the standard input. No cluster is asked.
    """
    with explained():
        snapshot = read(file)
        found = replayed(snapshot, pod)
        if pod is not None and not found:
            raise InputError(f"{file}: no pod {pod} waits in this snapshot{_who(snapshot)}")
    _write(snapshot, found, output, in_full=pod is not None)
    if check and any(one.then is not None and not one.is_same for one in found):
        sys.exit(1)


def replayed(snapshot: Snapshot, only: str | None = None) -> list[Replayed]:
    """Every waiting pod that was decided about, or the ``only`` one, decided again."""
    cluster, pipeline = restore(snapshot.state), default_pipeline(snapshot.settings)
    then = {one.uid: one.outcome for one in snapshot.pending}
    found: list[Replayed] = []
    for waiting in snapshot.state.queue:
        pod = waiting.pod
        if pod.key != only if only is not None else pod.uid not in then:
            continue
        decision = schedule_one(cluster, pod, pipeline)
        ranked = isinstance(decision, Placement) and rank(cluster, decision, pipeline)
        found.append(
            Replayed(
                pod=pod.key,
                uid=pod.uid,
                then=then.get(pod.uid),
                now=explain(decision),
                ranking=ranked or None,
            )
        )
    return found


def read(file: str) -> Snapshot:
    """A snapshot from a file; Mistake says in one line what is wrong with it."""
    try:
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error
    return decoded(content, file)


def decoded(content: bytes, file: str) -> Snapshot:
    """A snapshot from its bytes; ``file`` is where they came from."""
    try:
        head = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        kind = (_text(head, "apiVersion"), _text(head, "kind"))
        if kind != (API_VERSION, "Snapshot"):
            raise InputError(f"{file}: is no snapshot of gpu-scheduler ({' '.join(kind).strip()})")
        version = msgspec.json.decode(head.get("version", b"0"), type=int)
        if version != SNAPSHOT_VERSION:
            raise InputError(
                f"{file}: is of version {version}; this gpuctl reads version {SNAPSHOT_VERSION},"
                f" use the one of {_text(head, 'program')}"
            )
        return msgspec.json.decode(content, type=Snapshot)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InputError(f"{file}: is no snapshot: {str(error)[:200]}") from error


def _text(head: dict[str, msgspec.Raw], key: str) -> str:
    return msgspec.json.decode(head.get(key, b'""'), type=str)


def _who(snapshot: Snapshot) -> str:
    waiting = sorted(one.pod.key for one in snapshot.state.queue)
    if not waiting:
        return "; nobody does"
    shown = ", ".join(waiting[:5])
    return f"; {len(waiting)} do: {shown}{' ...' if len(waiting) > 5 else ''}"


def _write(snapshot: Snapshot, found: list[Replayed], output: str, *, in_full: bool) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    from gpuctl import text_output

    text_output.show_replay(snapshot, found, in_full=in_full)
