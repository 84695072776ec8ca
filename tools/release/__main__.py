"""``python -m tools.release``: notes, version, package, wheel, push, check.

It prints the commands for the tag and the commit, and does not run them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from tools.charts.copies import ROOT
from tools.charts.helm import HelmFailed, helm
from tools.controlplane import ControlPlaneError
from tools.release import CHANGELOG, NotReleased, planned, present
from tools.release.artifacts import checked_registry, package, wheel
from tools.release.check import check


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; exit status 1 with one line if it is blocked."""
    told = _parser().parse_args(words)
    try:
        _run(told)
    except (NotReleased, HelmFailed, ControlPlaneError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    notes = commands.add_parser("notes", help="changelog and versions")
    notes.add_argument("version", nargs="?", default="")
    notes.add_argument("--dry-run", action="store_true")
    commands.add_parser("version", help="print the present version")
    commands.add_parser("package", help="helm packages of the charts in dist/")
    commands.add_parser("wheel", help="the wheel in dist/")
    push = commands.add_parser("push", help="package the charts for a registry, and push them")
    push.add_argument("registry", help="HOST/PATH of the images; charts go to PATH/charts")
    commands.add_parser("check", help="rehearse a release on the loopback interface")
    return parser


def _run(told: argparse.Namespace) -> None:
    if told.command == "notes":
        _notes(told.version or present(), dry_run=told.dry_run)
    elif told.command == "version":
        print(present())
    elif told.command == "wheel":
        print(wheel())
    elif told.command == "push":
        _push(checked_registry(told.registry))
    elif told.command == "check":
        for line in check():
            print(f"OK {line}", flush=True)
    else:
        print("\n".join(map(str, package())))


def _push(registry: str) -> None:
    for archive in package(registry=registry):
        helm("push", archive, f"oci://{registry}/charts")
        print(f"pushed {archive.name} to {registry}/charts")


def _notes(version: str, *, dry_run: bool) -> None:
    files = planned(ROOT, version, f"{datetime.now(UTC):%Y-%m-%d}")
    for path, text in files.items():
        name = path.relative_to(ROOT)
        if text is None:
            print(f"remove {name}")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"write  {name}")
        if not dry_run:
            path.unlink() if text is None else path.write_text(text, encoding="utf-8")
    new = files[ROOT / CHANGELOG] or ""
    print("\n" + new.partition(f"\n## {version} ")[2].partition("\n## ")[0])
    print(f'then: git commit -am "Release {version}" && git tag v{version}')


if __name__ == "__main__":
    sys.exit(main())
