"""``python -m tools.mutants [WORD ...]``: take out each guard whose name holds all words.

Two at a time, each in a copy of the repository's Python files. Ends with 1 when a guard's loss goes
unnoticed, or when the list does not fit the code any more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final, NamedTuple

from tools.mutants.guards import Guard, Misfit, read, without

ROOT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = ("scheduler", "webhook", "gpuctl", "gpucheck", "tools", "bench", "tests", "cluster")
FILES: Final = ("pyproject.toml",)
AT_ONCE: Final = 2
TIMEOUT_S: Final = 180
FAILED: Final = 1  # pytest: tests ran, and some failed


class Result(NamedTuple):
    """What became of one guard's loss: ``noticed`` is how it should be."""

    guard: Guard
    word: str
    seconds: float
    detail: str = ""


def copy_of_the_tree(target: Path) -> Path:
    """The files that the tests need, in a folder of their own."""
    for part in PARTS:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / part, target / part, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, target / name)
    return target


def run_tests(tree: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run tests in a tree; always with the same random choices."""
    words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def attempt(guard: Guard, tree: Path) -> Result:
    """Take a guard out, run its tests, put it back."""
    started = time.monotonic()
    file = tree / guard.file
    before = file.read_text(encoding="utf-8")
    try:
        file.write_text(without(guard, before), encoding="utf-8")
        done = run_tests(tree, guard.tests)
    except Misfit as misfit:
        return Result(guard, "misfit", time.monotonic() - started, str(misfit))
    except subprocess.TimeoutExpired:
        return Result(guard, "noticed", time.monotonic() - started, "by hanging")
    finally:
        file.write_text(before, encoding="utf-8")
    seconds = time.monotonic() - started
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
    if done.returncode == FAILED:
        return Result(guard, "noticed", seconds, _first_failure(done.stdout))
    return Result(guard, "UNNOTICED" if done.returncode == 0 else "broken", seconds, last)


def _first_failure(output: str) -> str:
    failed = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].partition("::")[2].partition(" - ")[0] if failed else ""


def run_all(guards: list[Guard]) -> Iterator[Result]:
    """Every guard, two at a time, each worker in a tree of its own."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = [copy_of_the_tree(Path(folder) / str(number)) for number in range(AT_ONCE)]

        def work(guard: Guard) -> Result:
            tree = trees.pop()
            try:
                return attempt(guard, tree)
            finally:
                trees.append(tree)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for future in as_completed([pool.submit(work, guard) for guard in guards]):
                yield future.result()


def baseline(guards: list[Guard]) -> bool:
    """Whether the tests pass with every guard in place; else what follows means nothing."""
    tests = tuple(dict.fromkeys(test for guard in guards for test in guard.tests))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        done = run_tests(copy_of_the_tree(Path(folder) / "0"), ("-n", str(AT_ONCE), *tests))
    if done.returncode != 0:
        print(done.stdout[-3000:] + done.stderr[-1000:])
    return done.returncode == 0


def main(words: list[str]) -> int:
    """Run, print a table, say how it ended."""
    guards = [guard for guard in read() if all(word in guard.guard for word in words)]
    if not guards:
        print(f"no guard's name in tools/mutants/guards.yaml has {' and '.join(map(repr, words))}")
        return 2
    started = time.monotonic()
    if not baseline(guards):
        print("the tests fail with every guard in place")
        return 1
    results = []
    for result in run_all(guards):
        results.append(result)
        print(f"{result.word:>9} {result.seconds:5.1f} s  {result.guard.guard}", flush=True)
        print(f"{'':20}{result.detail}" if result.detail else "", flush=True)
    bad = [result for result in results if result.word != "noticed"]
    took_s = time.monotonic() - started
    print(f"{len(results) - len(bad)} of {len(results)} guards are watched over ({took_s:.0f} s)")
    for result in bad:
        print(f"{result.word}: {result.guard.guard} ({result.guard.file}): {result.detail}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
