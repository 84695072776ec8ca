"""What the simulated controllers of ``tests/migration_world`` know of their workloads."""

from __future__ import annotations

import dataclasses
from typing import Any

from scheduler.report.containment import Containment, Part


@dataclasses.dataclass
class Workload:
    """What an author wrote: a Deployment, and the budget that covers its pods."""

    name: str
    replicas: int = 2
    tier: str = "2g.20gb"
    priority: int = 0
    revision: str = "r1"
    annotations: dict[str, str] = dataclasses.field(default_factory=dict)
    allowed: int | None = None
    grace_s: float = 0.0
    is_closed: bool = False
    backoff_s: float = 0.0
    tries_at: float = 0.0
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def key(self) -> str:
        """How the product names it."""
        return f"team/Deployment/{self.name}"


class Uncontained(Containment):
    """Raises what it should contain, so that a test sees every fault."""

    def note(self, part: Part, about: str, problem: Exception) -> str:
        raise problem
