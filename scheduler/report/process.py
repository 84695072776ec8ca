"""One process, as its decisions API and its dashboard read it. Nothing is changed through it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from scheduler.config import Config
from scheduler.report.dashboard.leadership import Leadership
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.cost import CostReport
from scheduler.report.decisions.journal import DecisionContext, Journal
from scheduler.report.decisions.questions import QuestionQueue
from scheduler.report.metrics import Metrics


class AnsweringProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the process and what is known about it; ``clock`` is the loop's, ``wall`` the
    wall clock. The answers take turns in ``questions``.
    """

    config: Config
    identity: str
    context: DecisionContext
    journal: Journal
    leadership: Leadership
    metrics: Metrics
    capacity: CapacityReport
    costs: CostReport
    clock: Callable[[], float]
    wall: Callable[[], datetime]
    questions: QuestionQueue
