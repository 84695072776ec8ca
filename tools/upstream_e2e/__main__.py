"""The command line: ``python -m tools.upstream_e2e``.

It prints both results of each spec and writes them into docs/conformance.md. The exit status is 1
if gpu-scheduler fails a spec that kube-scheduler passes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tools.controlplane import ControlPlaneError
from tools.product import ROOT
from tools.upstream_e2e.build import ensure_tests
from tools.upstream_e2e.run import FOCUS, KUBE_SCHEDULER, OURS, run
from tools.upstream_e2e.table import Results, missed, put_into, rows, table

PAGE: Final = ROOT / "docs" / "conformance.md"
TIMEOUT_S: Final = 3600


def main(words: Sequence[str] | None = None) -> int:
    """Run the specs with both schedulers; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.upstream_e2e", description=__doc__)
    parser.add_argument("--focus", default=FOCUS, help="a regular expression of spec names")
    parser.add_argument("--timeout", type=int, default=TIMEOUT_S, help="seconds for each scheduler")
    parser.add_argument("--keep", type=Path, help="a new folder that keeps logs and reports")
    parser.add_argument("--no-page", action="store_true", help="do not write docs/conformance.md")
    arguments = parser.parse_args(words)
    try:
        with tempfile.TemporaryDirectory() as folder:
            theirs, ours = _both(arguments, arguments.keep or Path(folder) / "runs")
    except ControlPlaneError as error:
        print(f"upstream-e2e: {error}", file=sys.stderr)
        return 1
    print(text := table(theirs, ours))
    if not arguments.no_page:
        page = PAGE.read_text(encoding="utf-8")
        if arguments.focus != FOCUS:  # specs that did not run keep their results
            before = rows(page)
            text = table({**before[0], **theirs}, {**before[1], **ours})
        PAGE.write_text(put_into(page, text), encoding="utf-8")
    for name in missed(theirs, ours):
        print(f"only kube-scheduler passes: {name}")
    return 1 if missed(theirs, ours) else 0


def _both(arguments: argparse.Namespace, folder: Path) -> tuple[Results, Results]:
    """Each scheduler has a control plane of its own, so both run at once: most specs wait."""
    tests = ensure_tests()

    def results_of(name: str) -> Results:
        return run(tests, name, folder / name, focus=arguments.focus, timeout_s=arguments.timeout)

    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(results_of, (KUBE_SCHEDULER, OURS))
    return theirs, ours


if __name__ == "__main__":
    sys.exit(main())
