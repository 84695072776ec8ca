"""The command line: ``python -m tests.differential --sequences 300 --seed 1``.

Seeds that are recorded are replayed; the others are run live and recorded. So an interrupted run is
resumed by the same command. The exit status is 1 after a difference, whose shortest form is then in
``found/``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.differential import recordings
from tests.differential.generate.kinds import KINDS
from tests.differential.live.driver import Differs, Driver
from tests.differential.live.mirror import HarnessError
from tests.differential.live.run import lock_step
from tests.differential.live.shrink import shrunk
from tests.differential.recordings import Recording
from tests.differential.replay import replay
from tests.differential.sequence import Sequence as PodSequence

#: How often a sequence is run where the run itself fails.
RUNS_MAX: Final = 3
PROGRESS_S: Final = 20.0


def main(words: Sequence[str] | None = None) -> int:
    """Run the sequences; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--sequences", type=int, default=300, help="how many (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--kind", choices=sorted(KINDS), default="core")
    arguments = parser.parse_args(words)
    seeds = range(arguments.seed, arguments.seed + arguments.sequences)
    return asyncio.run(_run(arguments.kind, seeds))


async def _run(kind: str, seeds: range) -> int:
    known = {one.sequence.seed: one for one in recordings.of_kind(kind)}
    replayed = [known[seed] for seed in seeds if seed in known]
    for one in replayed:
        problem = replay(one)
        if problem:
            print(f"DIFFERENCE in the replay: {problem}")
            return 1
    missing = [seed for seed in seeds if seed not in known]
    live: list[Recording] = []
    if missing:
        with tempfile.TemporaryDirectory() as directory:
            async with lock_step(Path(directory) / "cp") as driver:
                if not await _live(driver, kind, missing, live):
                    return 1
    _summarize(kind, seeds, replayed, live)
    return 0


async def _live(driver: Driver, kind: str, seeds: Iterable[int], done: list[Recording]) -> bool:
    said_at = time.monotonic()
    for seed in seeds:
        try:
            recording = await _steady(driver, KINDS[kind](seed))
        except Differs as found:
            print(f"DIFFERENCE: {found}", flush=True)
            print(f"written to {await _write_down(driver, found)}")
            return False
        recordings.append(recordings.file_of(kind, seed), recording)
        done.append(recording)
        if time.monotonic() - said_at > PROGRESS_S:
            said_at = time.monotonic()
            print(f"{kind}: seed {seed} done, {len(done)} live", file=sys.stderr, flush=True)
    return True


async def _steady(driver: Driver, sequence: PodSequence) -> Recording:
    """Run a sequence, again where the run itself failed."""
    for _ in range(RUNS_MAX - 1):
        try:
            return await driver.run(sequence)
        except HarnessError as error:
            print(f"{sequence.name} is run again: {error}", file=sys.stderr, flush=True)
    return await driver.run(sequence)


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
