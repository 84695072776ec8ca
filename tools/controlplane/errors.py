"""The error of the control plane: one line with the place and the fix.

All problems of the machine (no network, a full disk, a port in use) become this error, so that a
command prints one line. A bug in this package is an assertion instead.
"""

from __future__ import annotations


class ControlPlaneError(Exception):
    """A problem outside of this program; the text contains the fix."""


class ProcessDied(ControlPlaneError):
    """A program of the control plane ended before it was ready."""

    def __init__(self, name: str, log_tail: str, log: str) -> None:
        super().__init__(f"{name} ended while starting; the end of {log}:\n{log_tail}")
        self.name = name
        self.log_tail = log_tail

    @property
    def is_port_clash(self) -> bool:
        """Whether another program bound the port between its choice and its use."""
        return "address already in use" in self.log_tail
