"""The one error of the control plane: a line that says where and what to do.

Everything a person can run into (no network, a full disk, a port that is taken) ends here, so that
a command line prints one line and a test fails with one. It never carries a traceback for a
message, and never stands for a bug of ours: those are asserts.
"""

from __future__ import annotations


class ControlPlaneError(Exception):
    """Something outside this program is in the way; the text says what to do about it."""


class ProcessDied(ControlPlaneError):
    """A program of the control plane ended before it was ready."""

    def __init__(self, name: str, log_tail: str, log: str) -> None:
        super().__init__(f"{name} ended while starting; the end of {log}:\n{log_tail}")
        self.name = name
        self.log_tail = log_tail

    @property
    def is_port_clash(self) -> bool:
        """Whether another program took the port between its choice and its use."""
        return "address already in use" in self.log_tail
