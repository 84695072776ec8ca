"""The lines, in their order, until a signal.

Waiting is an argument: ``wait(seconds)`` returns the number of a signal, or None after the time. So
the order is tested without a clock, and the process never sleeps through a signal.
"""

from __future__ import annotations

from collections.abc import Callable

from gpucheck.environment import Environment


def run(
    environment: Environment, *, say: Callable[[str], None], wait: Callable[[float], int | None]
) -> None:
    say("GPU Scheduler Check service starting...")
    say(f"Log interval: {environment.interval_s} seconds")
    for issue in environment.issues:
        say(f"Environment issue: {issue}")
    if not environment.issues:
        say("Environment validation passed")
    signal_number = None
    while signal_number is None:
        say(environment.line())
        signal_number = wait(environment.interval_s)
    say(f"Received signal {signal_number}, shutting down gracefully...")
    say("GPU Scheduler Check service stopped")
