"""The scheduler's side of admission, put together: what answers the webhook, here and elsewhere.

::

    webhook beside us --socket--> Answerer --not leading--> Forwarder --TLS--> the leader
    other replicas ------TLS----> Answerer, which then asks nobody else
    pods that came past the webhook -----> Replacer, once the webhook has served for a while
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

from scheduler.admission import leader_proxy
from scheduler.admission.server import AdmissionServer
from scheduler.bind.pod_recreator import PodEventSink, PodRecreator
from scheduler.config import Config
from scheduler.loop import Loop
from scheduler.model.pod import Pod
from scheduler.model.reason_code import RequeueCause
from scheduler.report.metrics import Metrics
from scheduler.state.breakers.recreate_budget import RecreateBudget, WebhookLiveness
from scheduler.watch.client import Client


class Election(Protocol):
    """What is asked of the election."""

    leader_address: str


class AdmissionServices:
    """One process's part in admission."""

    def __init__(
        self,
        config: Config,
        replicas: leader_proxy.LeaderProxySettings | None,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._metrics = metrics
        self._clock = clock

    def stages(
        self, client: Client, loop: Loop, election: Election, teller: PodEventSink
    ) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What has to run beside the loop, by name."""
        if not self._config.expects_webhook:
            return
        pulse = WebhookLiveness(self._config.webhook.repair_after_s)
        forwarder = self._forwarder(election)
        answerer = AdmissionServer(
            loop, self._config.rules(), self._metrics, self._clock, forwarder, pulse
        )
        yield "answer", answerer.serve(Path(self._config.webhook.socket))
        if self._replicas is not None:
            tally = self._metrics.connections.of("replicas")
            yield "replicas", leader_proxy.serve(self._replicas, answerer.forwarded, tally)
        replacer = PodRecreator(
            client,
            RecreateBudget(pulse),
            lambda: waiting_for_admission(loop),
            loop.is_active_leader,
            teller,
            lambda result: self._metrics.replaced.labels(result).inc(),
            self._clock,
        )
        yield "repair", replacer.run()

    def _forwarder(self, election: Election) -> leader_proxy.LeaderProxy | None:
        if self._replicas is None:
            return None
        return leader_proxy.LeaderProxy(
            self._replicas, lambda: election.leader_address, self._clock
        )


def waiting_for_admission(loop: Loop) -> Iterator[Pod]:
    """Pods that nothing helps but to be created again, as the watch shows them now."""
    for entry in loop.queue.entries():
        pod = loop.cluster.pods.get(entry.pod.uid)
        if RequeueCause.ADMISSION in entry.causes and pod is not None:
            yield pod
