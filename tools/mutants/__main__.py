"""``python -m tools.mutants [--policies] [WORD ...]``: remove each guard with these words.

Two run at a time, each in a copy of the repository. The exit status is 1 if the tests of a removed
guard pass, if its tests do not end in time, or if the list does not match the code. Tests that do
not end are run once more, alone and with twice the time, because a busy machine delays the first
run. Guards whose tests need an API server (the admission policies) run with ``--policies`` only.
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
#: Files that no test reads, or that belong to one checkout.
LEFT_OUT: Final = (
    ".git",
    ".*venv*",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "*.pyc",
    "build",
    "dist",
)
AT_ONCE: Final = 2
TIMEOUT_S: Final = 180.0
BASELINE_S: Final = 600.0
AGAIN: Final = 2.0  # factor of the limit for a second run of tests that did not end
FAILED: Final = 1  # pytest: tests ran, and some failed
TIMED_OUT: Final = "from pytest-timeout."  # a test with a limit of its own did not end
HUNG: Final = "HUNG"
POLICIES: Final = "--policies"


class Result(NamedTuple):
    """The result for one removed guard; ``noticed`` is the expected one."""

    guard: Guard
    word: str
    seconds: float
    detail: str = ""


def copy_of_the_tree(target: Path) -> Path:
    """Copy the files that the tests need into a folder."""
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return target


def run_tests(
    tree: Path, tests: tuple[str, ...], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run tests in a tree, with fixed random seeds and one limit for all of them."""
    words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    words += ["--timeout=0", *tests]
    # Programs that a test starts come from the tree, not from the installed package.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    return subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def attempt(guard: Guard, tree: Path, timeout_s: float) -> Result:
    """Remove a guard, run its tests, restore it."""
    started = time.monotonic()
    file = tree / guard.file
    before = file.read_text(encoding="utf-8")
    try:
        file.write_text(without(guard, before), encoding="utf-8")
        done = run_tests(tree, guard.tests, timeout_s)
    except Misfit as misfit:
        return Result(guard, "misfit", time.monotonic() - started, str(misfit))
    except subprocess.TimeoutExpired:
        detail = f"its tests did not end in {timeout_s:.0f} s: nothing is shown"
        return Result(guard, HUNG, time.monotonic() - started, detail)
    finally:
        file.write_text(before, encoding="utf-8")
    seconds = time.monotonic() - started
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
    if done.returncode == FAILED and TIMED_OUT in done.stdout:
        return Result(guard, HUNG, seconds, f"{_first_failure(done.stdout)} reached its own limit")
    if done.returncode == FAILED:
        return Result(guard, "noticed", seconds, _first_failure(done.stdout))
    return Result(guard, "UNNOTICED" if done.returncode == 0 else "broken", seconds, last)


def _first_failure(output: str) -> str:
    failed = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].partition("::")[2].partition(" - ")[0] if failed else ""


def workers(guards: list[Guard]) -> int:
    """The number of parallel runs: control planes run one after the other."""
    return 1 if any(guard.needs_api_server for guard in guards) else AT_ONCE


def run_all(guards: list[Guard]) -> Iterator[Result]:
    """Every guard, each worker in its own tree; timed-out ones are repeated at the end."""
    at_once = workers(guards)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = [copy_of_the_tree(Path(folder) / str(number)) for number in range(at_once)]

        def work(guard: Guard) -> Result:
            tree = trees.pop()
            try:
                return attempt(guard, tree, TIMEOUT_S)
            finally:
                trees.append(tree)

        hung = []
        with ThreadPoolExecutor(at_once) as pool:
            for future in as_completed([pool.submit(work, guard) for guard in guards]):
                result = future.result()
                if result.word == HUNG:
                    hung.append(result.guard)
                else:
                    yield result
        for guard in hung:
            yield attempt(guard, trees[0], TIMEOUT_S * AGAIN)


def baseline(guards: list[Guard]) -> bool:
    """Whether the tests pass with every guard in place; otherwise the results are invalid."""
    tests = tuple(dict.fromkeys(test for guard in guards for test in guard.tests))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copy_of_the_tree(Path(folder) / "0")
        try:
            done = run_tests(tree, ("-n", str(workers(guards)), *tests), BASELINE_S)
        except subprocess.TimeoutExpired:
            print(f"the tests did not end in {BASELINE_S:.0f} s")
            return False
    if done.returncode != 0:
        print(done.stdout[-3000:] + done.stderr[-1000:])
    return done.returncode == 0


def main(words: list[str]) -> int:
    """Run, print a table and the summary."""
    with_policies = POLICIES in words
    names = [word for word in words if word != POLICIES]
    listed = [guard for guard in read() if all(name in guard.guard for name in names)]
    guards = [guard for guard in listed if guard.needs_api_server == with_policies]
    if not guards:
        print(f"no guard's name in tools/mutants/guards.yaml has {' and '.join(map(repr, names))}")
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
    if not with_policies and len(listed) > len(guards):
        print(f"not run: {len(listed) - len(guards)} that need an API server ({POLICIES})")
    for result in bad:
        print(f"{result.word}: {result.guard.guard} ({result.guard.file}): {result.detail}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
