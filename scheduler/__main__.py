"""``python -m scheduler``."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: The variable by which OpenSSL finds the system's certificate authorities.
AUTHORITIES: Final = "SSL_CERT_FILE"

#: New objects before a garbage collection, until the caches are filled: modules and the lists of a
#: large cluster are a million new objects, and no garbage.
COLLECT_AFTER_AT_START: Final = 500_000
# structlog imports rich, where it is installed, for tracebacks that the log does not have.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None: not there


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command-line flags; all other settings are in the configuration file."""
    from scheduler.report import log

    parser = argparse.ArgumentParser(prog="python -m scheduler", description="The GPU scheduler.")
    parser.add_argument("--config", type=Path, help="GpuSchedulerConfiguration (YAML)")
    parser.add_argument("--kubeconfig", help="run outside a cluster with this kubeconfig")
    parser.add_argument("--log-json", action="store_true", help="one JSON object per line")
    parser.add_argument(
        "--log-level",
        choices=log.LEVELS,
        default="info",
        help="info: one line per decision; detail: also their steps; debug: everything",
    )
    parser.add_argument(
        *("-v", "--verbose"),
        dest="log_level",
        action="store_const",
        const="debug",
        help="the same as --log-level debug",
    )
    return parser.parse_args(arguments)


@contextlib.contextmanager
def without_authorities() -> Iterator[None]:
    """The system's certificate authorities are not loaded in the block.

    aiohttp loads them when it is imported, which takes 0.07 s. Every connection of the scheduler
    has TLS settings of its own.
    """
    before = os.environ.get(AUTHORITIES)
    os.environ[AUTHORITIES] = os.devnull
    try:
        yield
    finally:
        del os.environ[AUTHORITIES]
        if before is not None:
            os.environ[AUTHORITIES] = before


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM; the exit status is 0 after a clean stop, 1 after a failure."""
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    gc.set_threshold(COLLECT_AFTER_AT_START)
    with without_authorities():
        from scheduler.start import run

    return run(
        options.config, options.kubeconfig, as_json=options.log_json, level=options.log_level
    )


if __name__ == "__main__":
    sys.exit(main())
