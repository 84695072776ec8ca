"""Writes the golden files, or checks that the real code still gives the same results.

    python -m tools.golden            write every file (under tests/golden)
    python -m tools.golden --check    write nothing; fail if a file would change
    python -m tools.golden quantity   only the files with this prefix

Needs Go and the module proxy (or a filled module cache). The first run of ``fiterror``,
``scheduling``, ``volumescore`` or ``extendedresources`` compiles parts of kube-scheduler, which
takes minutes.

Golden files are never edited by hand: if a test fails, the test or our code is wrong.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

TOOLS: Final = Path(__file__).parent
ROOT: Final = TOOLS.parents[1]
GOLDEN: Final = ROOT / "tests" / "golden"
#: Files that gpuctl reads too, so that the wheel has them.
ELSEWHERE: Final = {"api_fields.json": ROOT / "gpuctl/simulate/validation"}

#: Golden file -> folder in which its generator runs, and the generator.
GENERATORS: Final[dict[str, tuple[Path, tuple[str, ...]]]] = {
    "quantity.json": (TOOLS / "quantity", ("go", "run", ".")),
    "tolerations.json": (TOOLS / "selectors", ("go", "run", ".", "tolerations")),
    "nodeaffinity.json": (TOOLS / "selectors", ("go", "run", ".", "nodeaffinity")),
    "labelselectors.json": (TOOLS / "selectors", ("go", "run", ".", "labelselectors")),
    "cel.json": (TOOLS / "cel", ("go", "run", ".")),
    "csitranslation.json": (TOOLS / "storage", ("go", "run", ".", "csitranslation")),
    "volumematch.json": (TOOLS / "storage", ("go", "run", ".", "volumematch")),
    "filterscores.json": (TOOLS / "scheduling", ("go", "run", ".", "filterscores")),
    "preemption.json": (TOOLS / "scheduling", ("go", "run", ".", "preemption")),
    "nodefeatures.json": (TOOLS / "scheduling", ("go", "run", ".", "nodefeatures")),
    "imagelocality.json": (TOOLS / "scheduling", ("go", "run", ".", "imagelocality")),
    "dynamicresources.json": (TOOLS / "dynamicresources", ("go", "run", ".")),
    "api_fields.json": (ROOT, (sys.executable, "-m", "tools.golden.api_fields")),
    "fiterror.json": (TOOLS / "fiterror", ("go", "run", ".")),
    "volumescore.json": (TOOLS / "fiterror", ("go", "run", "./volumescore")),
    "extendedresources.json": (TOOLS / "fiterror", ("go", "run", "./extendedresources")),
}


def answers(name: str) -> bytes:
    """The results of the real code."""
    folder, command = GENERATORS[name]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE).stdout


def main(arguments: Sequence[str]) -> int:
    """Write or compare the chosen files; the exit status is the number of changed ones."""
    check = "--check" in arguments
    wanted = tuple(argument for argument in arguments if argument != "--check")
    chosen = [name for name in GENERATORS if not wanted or name.startswith(wanted)]
    if not chosen:
        print(
            f"no golden file begins with {' or '.join(wanted)}; there are {', '.join(GENERATORS)}"
        )
        return 2
    changed = 0
    for name in chosen:
        path, now = ELSEWHERE.get(name, GOLDEN) / name, answers(name)
        same = path.exists() and path.read_bytes() == now
        changed += not same
        print(f"{name}: {'unchanged' if same else 'differs' if check else 'written'}", flush=True)
        if not same and not check:
            path.write_bytes(now)
    return min(changed, 1) if check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
