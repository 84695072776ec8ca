"""``python -m tools.charts``: write the generated files.

``--no-helm`` skips webhook/deploy/, the only part that helm renders.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.charts import copies
from tools.charts.deploy import everything as plain_manifests
from tools.charts.helm import HelmFailed
from tools.charts.values import BadValues
from tools.controlplane.errors import ControlPlaneError


def main(words: Sequence[str] | None = None) -> int:
    """Write every changed file, and print its path."""
    parser = argparse.ArgumentParser(prog="python -m tools.charts", description=__doc__)
    parser.add_argument("--no-helm", action="store_true", help="do not render webhook/deploy/")
    options = parser.parse_args(words)
    try:
        wanted = copies.everything()
        for path in copies.stray():
            print(f"removed {path.relative_to(copies.ROOT)}")
            path.unlink()
        _write(wanted)
        if not options.no_helm:
            _write(plain_manifests())
    except (BadValues, ControlPlaneError, HelmFailed) as error:
        print(f"charts: {error}", file=sys.stderr)
        return 1
    return 0


def _write(wanted: dict[Path, str]) -> None:
    for path, text in wanted.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(copies.ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
