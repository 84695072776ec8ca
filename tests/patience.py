"""How long a test waits for what must happen, and how long a slow machine may take for a promise.

A wait ends as soon as its condition holds, so a long one costs a passing test nothing. A shorter
one is right only where the end of a wait is the tested behaviour.
"""

from __future__ import annotations

from typing import Final

from tools.controlplane import client

PATIENCE_S: Final = client.PATIENCE_S
#: The product promises some durations for a quiet machine. A test allows this many times as long:
#: other test runs share its processors, and that delays a right answer.
SLOW_MACHINE: Final = 4.0
