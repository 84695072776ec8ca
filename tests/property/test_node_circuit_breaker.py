"""Any order of kubelet rejections: four failed pods in ten minutes, and no unrelated pod.

A breaker alone, on a clock that the examples move. Pods go where it lets them; what the kubelet
says of each, and when, is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler.model.pods.pod import Pod
from scheduler.state.breakers.circuit import REJECTIONS_MAX, Timings
from scheduler.state.breakers.kubelet_rejection import about, covers
from scheduler.state.breakers.node_circuit_breaker import NodeCircuitBreaker
from tests.builders import GPU, pod

WINDOW_S = Timings().window_s
NAMED = ("UnexpectedAdmissionError", f"no healthy devices present for {GPU}, which is unexpected")
STATED = ("UnexpectedAdmissionError", "maximum request size for shared resources is 1; found 2")
OUT_OF = (f"OutOf{GPU}", "")
ALIKE = ("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
ADMITTED = ("", "")

TEMPLATES = (
    pod("a", gpus=1, owner="Deployment/a"),
    pod("b", gpus=1, requests={"cpu": "1"}, owner="Deployment/b"),
    pod("c", gpus=1, requests={"cpu": "2"}, owner="Deployment/c"),
    pod("d", gpus=2, owner="Deployment/d"),
    pod("e", gpus=4, owner="Deployment/e"),
    pod("f", gpus=4, requests={"cpu": "1"}, owner="Deployment/d"),
    pod("g", mig={"1g.10gb": 1}, owner="Deployment/g"),
)

Words = tuple[str, str]
Step = tuple[str, int, Words, float]
KINDS = st.integers(0, len(TEMPLATES) - 1)
#: Mostly a few kinds, so that refusals meet.
FEW = st.sampled_from((0, 0, 0, 1, 3, 6))
VERDICTS = st.sampled_from((NAMED, NAMED, NAMED, OUT_OF, STATED, ALIKE, ADMITTED))
PAUSES = st.sampled_from((0.5, 1.0, 10.0, 30.0, 31.0, 61.0, 121.0, 301.0, 600.0))


def steps(verdicts: st.SearchStrategy[Words]) -> st.SearchStrategy[list[Step]]:
    """Pods are sent, those on their way get their verdicts, both at once, and time passes."""
    nothing, at_once = st.just(NAMED), st.just(0.0)
    kinds = st.one_of(FEW, FEW, KINDS)
    one = st.one_of(
        st.tuples(st.just("try"), kinds, verdicts, at_once),
        st.tuples(st.just("try"), kinds, verdicts, at_once),
        st.tuples(st.just("send"), kinds, nothing, at_once),
        st.tuples(st.just("verdict"), st.just(0), verdicts, at_once),
        st.tuples(st.just("wait"), st.just(0), nothing, PAUSES),
    )
    return st.lists(one, min_size=10, max_size=120)


class Refused(msgspec.Struct, frozen=True):
    """A pod that failed, and what its failure is about."""

    at: float
    pod: Pod
    scope: str


class Trial:
    """One node and the pods on their way to it, oldest first."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.breaker = NodeCircuitBreaker()
        self.refused: list[Refused] = []
        self.admitted: list[tuple[float, Pod]] = []
        self._sent: list[Pod] = []
        self._count = 0

    def is_open_to(self, one: Pod) -> bool:
        return not any(covers(scope, one) for scope in self.breaker.avoided("n1", self.now))

    def admits(self, scope: str, failed: list[Refused]) -> bool:
        """Whether a pod of the scope was admitted between these failures."""
        first, last = failed[0].at, failed[-1].at
        return any(first <= at <= last and covers(scope, one) for at, one in self.admitted)

    def step(self, step: Step) -> None:
        what, kind, words, seconds = step
        if what == "wait":
            self.now += seconds
            self.breaker.tick(self.now)
        if what in ("send", "try"):
            self._send(TEMPLATES[kind])
        if what in ("verdict", "try") and self._sent:
            self._verdict(self._sent.pop(0), *words)

    def _send(self, template: Pod) -> None:
        # As many as that may be refused together where nothing was refused before.
        if len(self._sent) < REJECTIONS_MAX and self.is_open_to(template):
            self._count += 1
            one = msgspec.structs.replace(template, uid=f"{template.uid}-{self._count}")
            self.breaker.record_binding(one, "n1", self.now)
            self._sent.append(one)

    def _verdict(self, one: Pod, reason: str, message: str) -> None:
        if not self.breaker.in_flight.get(one.uid):
            return  # its node was silent for too long
        what = about(one, reason, message) if reason else None
        if what is None:
            self.breaker.record_admission(one.uid, self.now)
            self.admitted.append((self.now, one))
        else:
            self.breaker.record_rejection(one.uid, reason, message, self.now)
            self.refused.append(Refused(self.now, one, what.scope))


def windows(refused: Iterable[Refused]) -> Iterable[list[Refused]]:
    """What failed within ten minutes, from each that failed on."""
    every = list(refused)
    for first in every:
        yield [one for one in every if first.at <= one.at < first.at + WINDOW_S]


@given(steps(VERDICTS))
def test_each_scope_fails_at_most_four_pods_in_ten_minutes(drawn: list[Step]) -> None:
    """One more of another kind, where other pods of the scope were admitted meanwhile."""
    trial = Trial()
    for one in drawn:
        trial.step(one)

    for window in windows(trial.refused):
        for scope in {one.scope for one in window}:
            failed = [one for one in window if one.scope == scope]
            event(f"{len(failed)} of a scope")
            kinds = Counter(one.pod.class_id for one in failed)
            assert max(kinds.values()) <= REJECTIONS_MAX, window
            assert len(failed) <= REJECTIONS_MAX + trial.admits(scope, failed), window


@given(steps(st.sampled_from((STATED, ADMITTED))))
def test_requests_up_to_an_admitted_size_are_never_kept_off(
    drawn: list[Step],
) -> None:
    """One GPU, where only two and four were refused; it waits for those on their way at most."""
    trial, innocent = Trial(), TEMPLATES[1]
    for one in drawn:
        trial.step(one)
        asked_for_more = {one.pod.requests.get(GPU, 0) > 1 for one in trial.refused}
        if asked_for_more == {True}:
            assert trial.is_open_to(innocent)
