"""The tasks of admission: servers that answer webhooks in the same pod and in other replicas.

::

    webhook in the same pod --socket--> AdmissionServer --not leading--> LeaderProxy --> the leader
    other replicas ----------TLS------> AdmissionServer, which answers itself

With ``decisionsApi.aggregated`` the same two ways lead to AggregatedDecisions.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from scheduler.admission import leader_proxy
from scheduler.admission.aggregated import AggregatedDecisions, Page
from scheduler.admission.front_proxy import FrontProxyReader
from scheduler.admission.server import NO_PAGES, AdmissionServer
from scheduler.config import Config
from scheduler.controllers.leadership.elector import LeaderElector
from scheduler.loop import Loop
from scheduler.model.admission import PATH
from scheduler.model.decisions import messages
from scheduler.report.decisions.namespace_decisions import NamespaceDecisions
from scheduler.report.decisions.pod_answers import PodAnswers
from scheduler.report.decisions.questions import QuestionQueue
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.report.metrics import Metrics
from scheduler.state.breakers.recreate_budget import WebhookLiveness
from scheduler.watch.client import Client


def admission_tasks(
    client: Client,
    config: Config,
    replicas: leader_proxy.LeaderProxySettings | None,
    loop: Loop,
    elector: LeaderElector,
    metrics: Metrics,
    webhook: WebhookLiveness | None,
    clock: Callable[[], float],
    wall: Callable[[], datetime],
    questions: QuestionQueue,
) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
    """The tasks that run beside the loop, by name; none without a webhook.

    ``questions`` has the turns of the decisions API too: together they take one turn at a time.
    """
    if webhook is None:
        return
    proxy = None
    if replicas is not None:
        proxy = leader_proxy.LeaderProxy(replicas, lambda: elector.leader_address, clock)
    pages: Mapping[tuple[str, str], Page] = NO_PAGES
    answers: dict[str, leader_proxy.Answer] = {}
    if config.decisions_api.aggregated:
        reader = FrontProxyReader(client)
        decisions = _namespace_decisions(loop, elector, clock, wall)
        aggregated = AggregatedDecisions(decisions, loop.gate.is_open, reader, questions, proxy)
        pages, answers = aggregated.pages, {messages.PATH: aggregated.forwarded}
        yield "front proxy", reader.run()
    server = AdmissionServer(loop, config.rules(), metrics, clock, proxy, webhook, pages)
    yield "admission", server.serve(Path(config.webhook.socket))
    if replicas is not None:
        connections = metrics.connections.of("replicas")
        answers[PATH] = server.forwarded
        yield "replicas", leader_proxy.serve(replicas, answers, connections)


def _namespace_decisions(
    loop: Loop,
    elector: LeaderElector,
    clock: Callable[[], float],
    wall: Callable[[], datetime],
) -> NamespaceDecisions:
    renderer = DecisionRenderer(clock, wall)
    pods = PodAnswers(loop, loop.journal, renderer, elector.leads)
    return NamespaceDecisions(loop, loop.journal, pods, clock)
