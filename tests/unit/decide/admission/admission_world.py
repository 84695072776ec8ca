"""Selects tiers as the webhook's queries do, and stores the reservations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scheduler.decide.admission.admit import Admission, Rules, admit, reserve
from scheduler.model import well_known
from scheduler.model.admission import Scope
from scheduler.model.mig.fallback_ladder import parse_ladder
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from tests.builders import MIG_1G, MIG_2G, node, pod
from tests.scheduler_world import SchedulerWorld

LADDER = parse_ladder("2g.20gb->1g.20gb->1g.10gb")
RULES = Rules(ladders=(LADDER,))
NOW = 1000.0
TIERS = {MIG_2G: "2g.20gb", MIG_1G: "1g.10gb"}


def seed_nodes() -> tuple[Node, Node]:
    """Seed 000: the small node is cut into 28 x 1g, the medium one into 12 x 2g and 4 x 1g."""
    return (
        node("small", mig={"1g.10gb": 28}),
        node("medium", mig={"2g.20gb": 12, "1g.10gb": 4}),
    )


def wants_2g(name: str = "web-", count: int = 1, **fields: Any) -> Pod:
    """A pod under review that requests 2g.20gb."""
    return pod(name, **{"mig": {"2g.20gb": count}, "uid": "", **fields})


class World(SchedulerWorld):
    """A cluster, its reservations, and the rejected pods that wait."""

    def __init__(self, *objects: Pod | Node | Namespace, rules: Rules = RULES) -> None:
        super().__init__(*objects, now=NOW)
        self.waiting: Iterable[Pod] = ()
        self.rules = rules
        self.last_id = ""
        self._asked = 0

    def ask(self, asked: Pod, scope: Scope = "ours", now: float = NOW) -> Admission:
        """What the pod gets; nothing is kept."""
        groups = [[one] for one in self.waiting]
        return admit(self.cluster, self.reservations, groups, asked, scope, self.rules, now=now)

    def admit(self, asked: Pod, scope: Scope = "ours", now: float = NOW) -> str:
        """What the pod gets, promised: its tier, or the word for why none."""
        admission = self.ask(asked, scope, now)
        if admission.granted is None:
            return admission.result
        self._asked += 1
        self.last_id = f"r-{self._asked}"
        reserve(self.reservations, admission, self.last_id, now)
        [resource] = admission.granted.pod.gpu_requests
        return TIERS.get(resource, well_known.mig_profile(resource))

    def appear(self, tier: str, number: int, **fields: Any) -> Pod:
        """The watch shows the pod of a reservation, still without a node."""
        tag = {well_known.RESERVATION: f"r-{number}"}
        shown = pod(f"web-{number}", mig={tier: 1}, annotations=tag, **fields)
        self.deliver(ev.PodUpdated(shown))
        return shown
