"""The tasks of admission: servers that answer webhooks in the same pod and in other replicas.

::

    webhook in the same pod --socket--> AdmissionServer --not leading--> LeaderProxy --> the leader
    other replicas ----------TLS------> AdmissionServer, which answers itself
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from scheduler.admission import leader_proxy
from scheduler.admission.server import AdmissionServer
from scheduler.config import Config
from scheduler.controllers.leadership.elector import LeaderElector
from scheduler.loop import Loop
from scheduler.report.metrics import Metrics
from scheduler.state.breakers.recreate_budget import WebhookLiveness


def admission_tasks(
    config: Config,
    replicas: leader_proxy.LeaderProxySettings | None,
    loop: Loop,
    elector: LeaderElector,
    metrics: Metrics,
    webhook: WebhookLiveness | None,
    clock: Callable[[], float],
) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
    """The tasks that run beside the loop, by name; none without a webhook."""
    if webhook is None:
        return
    proxy = None
    if replicas is not None:
        proxy = leader_proxy.LeaderProxy(replicas, lambda: elector.leader_address, clock)
    server = AdmissionServer(loop, config.rules(), metrics, clock, proxy, webhook)
    yield "admission", server.serve(Path(config.webhook.socket))
    if replicas is not None:
        connections = metrics.connections.of("replicas")
        yield "replicas", leader_proxy.serve(replicas, server.forwarded, connections)
