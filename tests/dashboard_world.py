"""A loop with a dashboard beside it, and a small cluster of whole GPUs and MIG instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from scheduler.config import Config, Maps
from scheduler.framework.pipeline import Pipeline
from scheduler.model import well_known
from scheduler.model.limits import DASHBOARD_LISTENERS_MAX
from scheduler.model.quota import Quota
from scheduler.report.dashboard.contents import Content, PageContents, PageKey
from scheduler.report.dashboard.feed import DashboardFeed
from scheduler.report.dashboard.pages.health import Listeners
from scheduler.report.dashboard.pages.history import History
from scheduler.report.dashboard.process_facts import ProcessFacts
from scheduler.report.dashboard.sampler import Sampler
from scheduler.report.dashboard.stopwatch import Stopwatch
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.decisions.cost import CostReport
from scheduler.report.decisions.pod_answers import PodAnswers
from scheduler.report.decisions.questions import QuestionQueue
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.report.price_table import PriceTableReader
from scheduler.report.process import AnsweringProcess
from scheduler.state import event as ev
from tests.builders import ALLOW_ALL_MAPS, dynamic, node, pod
from tests.unit.loop.loop_world import Stage

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
H100 = {
    well_known.GPU_PRODUCT: "NVIDIA-H100-80GB-HBM3",
    well_known.ZONE: "zone-a",
}
A100 = {well_known.GPU_PRODUCT: "NVIDIA-A100-SXM4-40GB", well_known.ZONE: "zone-b"}
IDENTITY = "gpu-scheduler-7d9c5b-x2k4q_5f0c"
NO_LISTENERS = Listeners(open=0, max=64)


class Election:
    """The election of the world: a test sets the leader."""

    epoch: int | None = 4

    def __init__(self) -> None:
        self.is_leading = True
        self.holder = IDENTITY

    def leads(self) -> bool:
        return self.is_leading

    @property
    def led_since(self) -> float | None:
        return 900.0 if self.is_leading else None


class Watched:
    """The watch of a kind."""

    def __init__(self, kind: str, *, is_vital: bool = True) -> None:
        self.kind = kind
        self.is_vital = is_vital
        self.is_healthy = True
        self.is_listed = True


class DashboardWorld:
    """A stage with the parts of its dashboard; its wall clock is at noon and goes with the loop's.

    The feed has the clock ``feed_clock``, which a test of times may set.
    """

    def __init__(
        self,
        stage: Stage | None = None,
        config: Config | None = None,
        feed_clock: Callable[[], float] | None = None,
        interval_s: float = 0.001,
        listeners_max: int = DASHBOARD_LISTENERS_MAX,
        pipeline: Pipeline = ALLOW_ALL_MAPS,
        prices: str = "",
    ) -> None:
        self.stage = stage or Stage(pipeline)
        loop, clock = self.stage.loop, self.stage.clock
        config = config or Config(maps=Maps(allow="all"))
        self.election = Election()
        self.watches = [Watched("nodes"), Watched("pods"), Watched("quotas", is_vital=False)]
        self.questions = QuestionQueue()
        self.history = History()
        self.capacity = CapacityReport(loop, self.election.leads, clock, self.wall)
        self.costs = CostReport(loop, PriceTableReader(prices), self.election.leads, self.wall)
        answers = PodAnswers(
            loop,
            self.stage.journal,
            DecisionRenderer(clock, self.wall),
            self.election.leads,
        )
        process = AnsweringProcess(
            config=config,
            identity=IDENTITY,
            context=loop,
            journal=self.stage.journal,
            leadership=self.election,
            metrics=self.stage.metrics,
            capacity=self.capacity,
            costs=self.costs,
            clock=clock,
            wall=self.wall,
            questions=self.questions,
        )
        self.contents = PageContents(
            process,
            answers,
            ProcessFacts(process, self.watches, NOON),
            self.history,
            lambda: self.stage.gate.is_synced,
        )
        self.feed = DashboardFeed(
            self.contents,
            self.questions,
            config.scheduler_name,
            feed_clock or clock,
            self.wall,
            interval_s,
            listeners_max,
        )
        self.sampler = Sampler(
            self.capacity, self.history, self.contents, self.questions, self.wall
        )

    def wall(self) -> datetime:
        """The wall clock: noon when the loop's clock is at 1000 s."""
        return NOON + timedelta(seconds=self.stage.clock.now - 1000.0)

    async def content(self, page: str, namespace: str = "", name: str = "") -> Content:
        """The content of a page."""
        watch = Stopwatch(self.stage.clock)
        return await self.contents.compute(PageKey(page, namespace, name), watch, NO_LISTENERS)

    async def data(self, page: str, namespace: str = "", name: str = "") -> dict[str, Any]:
        """The data of a page, as the browser decodes it."""
        content = await self.content(page, namespace, name)
        assert content.state == "ok", content
        found: dict[str, Any] = msgspec.json.decode(content.data)
        return found

    async def fill(self, *more: ev.Event) -> None:
        """The small cluster: pods on four nodes, and pods that wait for several reasons."""
        self.stage.see(*small_cluster(), *more)
        self.stage.sync()
        await self.stage.quiet()


def small_cluster() -> Sequence[ev.Event]:
    """Two nodes with whole GPUs, two with MIG instances, and their pods."""
    nodes = (
        node(
            "h100-01",
            gpus=7,
            capacity={well_known.GPU: "8"},
            with_gpu_indexes=True,
            labels={**H100, well_known.GPU_COUNT: "8"},
            annotations={well_known.UNUSABLE_DEVICES: "7"},
        ),
        node("h100-02", gpus=8, labels=H100, cordoned=True),
        node("a100-01", mig={"3g.20gb": 2, "1g.5gb": 2}, labels=A100),
        dynamic("a100-02", gpus=2, product="NVIDIA-A100-SXM4-40GB"),
    )
    bound = (
        pod(
            "vllm-0",
            namespace="team-nlp",
            gpus=4,
            node="h100-01",
            devices="gpu:0,1,2,3",
            scheduler="gpu-scheduler",
            phase="Running",
            status={"startTime": "2026-11-27T10:00:30Z"},
        ),
        pod("jupyter", namespace="research", mig={"3g.20gb": 1}, node="a100-01", phase="Running"),
        pod(
            "infer-1",
            namespace="team-vision",
            mig={"1g.5gb": 1},
            node="a100-01",
            owner="Deployment/infer@5d8",
            phase="Running",
            annotations={well_known.FALLBACK: "3g.20gb->1g.5gb"},
        ),
        pod(
            "infer-2",
            namespace="team-vision",
            mig={"3g.20gb": 1},
            node="a100-02",
            devices="3g.20gb@0/0",
            scheduler="gpu-scheduler",
            phase="Running",
        ),
    )
    waiting = (
        pod("train-0", namespace="team-nlp", gpus=8, owner="Job/train", priority=100),
        pod("train-1", namespace="team-nlp", gpus=8, owner="Job/train", priority=100),
        pod("eval", namespace="research", gpus=2, selector={"pool": "none"}),
        pod("huge", namespace="research", gpus=64),
    )
    quota = Quota(
        namespace="team-nlp", name="gpus", hard={well_known.GPU: 16}, used={well_known.GPU: 4}
    )
    return (
        *(ev.NodeUpdated(one) for one in nodes),
        ev.QuotasReplaced((quota,)),
        *(ev.PodUpdated(one) for one in bound),
        *(ev.PodUpdated(one) for one in waiting),
    )
