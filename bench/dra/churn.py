"""Slices in use under churn: the stream of ``bench.mig`` as claims for MIG partitions.

Each request is a claim and a pod on the real API server, one at a time. It is lost if it is not
bound soon after the scheduler's first condition; pods and claims of requests that end are deleted.
"""

from __future__ import annotations

import time
from typing import Final

from bench.dra.cluster import NO_FINALIZERS, Cluster
from bench.dra.objects import claim, claiming_pod, claims_path, pods_path
from bench.mig.stream import Request, run, stream
from bench.observer import Observer
from bench.rounds import Namespace
from bench.schedulers import SchedulerUnderTest
from tools.controlplane import Client
from tools.controlplane.process import Running, tail

#: A condition may be older than the last freed partition: the pod is tried again at that event.
GRACE_S: Final = 0.15
BOUND_S: Final = 30.0
POLL_S: Final = 0.002


class Live:
    """A scheduler as a policy of ``bench.mig``."""

    moves = 0

    def __init__(
        self, client: Client, seen: Observer, contestant: SchedulerUnderTest, process: Running
    ) -> None:
        self._client = client
        self._seen = seen
        self._contestant = contestant
        self._process = process

    def place(self, request: Request) -> bool:
        """Place it now or never."""
        name, namespace = _name(request.number), self._seen.namespace
        scheduler = self._contestant.scheduler_name
        for one in (
            claim(namespace, name, request.profile),
            claiming_pod(namespace, name, scheduler),
        ):
            self._client.create(one.path, one.body)
        if self._is_bound(name):
            return True
        self.end(request.number)
        return False

    def _is_bound(self, name: str) -> bool:
        deadline = time.monotonic() + BOUND_S
        while name not in self._seen.bound:
            now = time.monotonic()
            explained = self._seen.explained.get(name)
            if explained is not None and now > explained + GRACE_S:
                return False
            if now > deadline or not self._process.is_alive():
                raise RuntimeError(f"no answer for {name}\n{tail(self._contestant.log, 40)}")
            time.sleep(POLL_S)
        return True

    def end(self, number: int) -> None:
        """A placed request ends."""
        name, namespace = _name(number), self._seen.namespace
        path = f"{claims_path(namespace)}/{name}"
        self._client.delete(f"{pods_path(namespace)}/{name}?gracePeriodSeconds=0")
        self._client.patch(path, NO_FINALIZERS)
        self._client.delete_if_there(path)


def _name(number: int) -> str:
    return f"r-{number:05}"


def one_round(
    cluster: Cluster,
    contestant: SchedulerUnderTest,
    column: tuple[str, float],
    seed: int,
    duration: float,
) -> dict[str, float]:
    """One scheduler on one stream, in percent; the cluster has a node for each GPU."""
    plane = cluster.plane
    with Namespace(plane) as namespace:
        process = contestant.start()
        try:
            with Observer(plane.client, namespace) as seen, plane.client.kept() as client:
                policy = Live(client, seen, contestant, process)
                outcome = run(policy, stream(*column, seed, duration), duration)
            cluster.allocated()
        finally:
            process.stop()
            cluster.delete_claims(namespace)
    return {"slices": round(outcome.slices, 2), "accepted": round(outcome.accepted, 2)}
