"""The command line: ``python -m tests.differential --sequences 300 --seed 1``.

Seeds that are recorded are replayed; the others are run live and recorded, some at a time. So an
interrupted run is resumed by the same command. The exit status is 1 after a difference, whose
shortest form is then in ``found/``; without one the seeds count as run (``runs``).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Final

from tests.differential import recordings, runs
from tests.differential.dra.acceptor import Acceptor, running
from tests.differential.generate import claims, core, preemption, sources, volumes
from tests.differential.generate.kinds import KINDS
from tests.differential.live.driver import Differs, Driver
from tests.differential.live.mirror import HarnessError
from tests.differential.live.run import lock_step, steady
from tests.differential.live.shrink import shrunk
from tests.differential.recordings import Recording
from tests.differential.replay import replay
from tests.differential.sequence import Sequence as PodSequence

#: The kinds that run where none is named.
DEFAULT: Final = (core.KIND, claims.KIND, volumes.KIND, sources.KIND, preemption.KIND)
#: How many sequences run at a time, each on a control plane of its own.
AT_ONCE: Final = 2
PROGRESS_S: Final = 20.0


def main(words: Sequence[str] | None = None) -> int:
    """Run the sequences; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--sequences", type=int, default=300, help="how many (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--kind", choices=sorted(KINDS), help=f"default: {', '.join(DEFAULT)}")
    parser.add_argument(
        "--at-once", type=int, default=AT_ONCE, help=f"how many at a time (default {AT_ONCE})"
    )
    arguments = parser.parse_args(words)
    seeds = range(arguments.seed, arguments.seed + arguments.sequences)
    kinds = (arguments.kind,) if arguments.kind else DEFAULT
    return max(asyncio.run(_run(kind, seeds, arguments.at_once)) for kind in kinds)


async def _run(kind: str, seeds: range, at_once: int) -> int:
    known = {one.sequence.seed: one for one in recordings.of_kind(kind)}
    replayed = [known[seed] for seed in seeds if seed in known]
    with ExitStack() as stack:
        acceptor = stack.enter_context(running()) if kind == claims.KIND else None
        for one in replayed:
            problem = replay(one, acceptor)
            if problem:
                print(f"DIFFERENCE in the replay: {problem}")
                return 1
        missing = [seed for seed in seeds if seed not in known]
        live = Live(kind, missing, acceptor)
        if missing and not await live.run(min(at_once, len(missing))):
            return 1
        if acceptor is not None:
            print(f"{acceptor.asked:6} allocations of ours accepted by the real allocator")
    _summarize(kind, seeds, replayed, live.done)
    known_runs = runs.read()
    run = known_runs.get(kind, runs.Run()).with_recordings([*replayed, *live.done])
    runs.write({**known_runs, kind: run})
    return 0


class Live:
    """Seeds that are run, in order; the first difference ends the run."""

    def __init__(self, kind: str, seeds: Sequence[int], acceptor: Acceptor | None = None) -> None:
        self.done: list[Recording] = []
        self._acceptor = acceptor
        self._kind = kind
        self._seeds: Iterator[int] = iter(seeds)
        self._is_equal = True
        self._said_at = time.monotonic()

    async def run(self, at_once: int) -> bool:
        """Run so many sequences at a time; returns whether there was no difference."""
        async with AsyncExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            drivers = [
                await stack.enter_async_context(lock_step(Path(directory) / f"cp-{number}"))
                for number in range(at_once)
            ]
            async with asyncio.TaskGroup() as group:
                for driver in drivers:
                    group.create_task(self._run_on(driver))
        return self._is_equal

    async def _run_on(self, driver: Driver) -> None:
        """Take the next seed until none is left."""
        while self._is_equal and (seed := next(self._seeds, None)) is not None:
            try:
                recording = await steady(driver, KINDS[self._kind](seed))
            except Differs as found:
                self._is_equal = False
                print(f"DIFFERENCE: {found}", flush=True)
                print(f"written to {await _write_down(driver, found)}")
                return
            problem = replay(recording, self._acceptor) if self._acceptor is not None else ""
            if problem:
                self._is_equal = False
                print(f"DIFFERENCE in the replay: {problem}", flush=True)
                recordings.append(recordings.FOUND / f"{self._kind}-{seed}.json", recording)
                return
            recordings.append(recordings.file_of(self._kind, seed), recording)
            self.done.append(recording)
            self._say_progress(seed)

    def _say_progress(self, seed: int) -> None:
        if time.monotonic() - self._said_at > PROGRESS_S:
            self._said_at = time.monotonic()
            text = f"{self._kind}: seed {seed} done, {len(self.done)} live"
            print(text, file=sys.stderr, flush=True)


async def _write_down(driver: Driver, found: Differs) -> Path:
    """Cut the sequence to the fewest steps that differ, and write it with the answers."""
    smallest = found

    async def differs(sequence: PodSequence) -> bool:
        nonlocal smallest
        try:
            await driver.run(sequence)
        except Differs as again:
            smallest = again
            return True
        except HarnessError:  # a step needs one that was cut
            return False
        return False

    sequence = found.recording.sequence
    await differs(await shrunk(sequence, differs))
    path = recordings.FOUND / f"{sequence.kind}-{sequence.seed}.json"
    path.unlink(missing_ok=True)
    recordings.append(path, smallest.recording)
    return path


def _summarize(
    kind: str, seeds: range, replayed: Sequence[Recording], live: Sequence[Recording]
) -> None:
    every = [*replayed, *live]
    reasons: Counter[str] = Counter()
    placed = rejected = 0
    for one in every:
        for answer in one.answers:
            placed += bool(answer.nodes)
            rejected += not answer.nodes
            reasons.update(answer.reasons.keys())
    for text, count in reasons.most_common():
        print(f"{count:6} rejections with: {text}")
    print(
        f"{kind}: {len(every)} sequences, seeds {seeds.start} to {seeds.stop - 1}: 0 differences"
        f" ({len(live)} live, {len(replayed)} replayed; {placed} pods placed, {rejected} rejected)"
    )


if __name__ == "__main__":
    sys.exit(main())
