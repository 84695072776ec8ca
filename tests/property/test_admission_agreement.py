"""Webhook, scheduler and simulator give one answer about a pod's tier.

The same random world twice: once as files to ``gpuctl simulate``, once as bytes to a running
scheduler, asked by the webhook for each pod in turn. What was asked of the API server, what the
pod became and where it went must be the same.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuctl.simulate.apiserver_defaults import node_with_status, with_requests
from gpuctl.simulate.input import simulate
from gpuctl.simulate.manifests import Document
from scheduler.admission.server import AdmissionServer
from scheduler.config import Config, Fallback, Maps
from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, AdmissionQuery
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import Quota
from scheduler.state import event as ev
from scheduler.watch.decode import objects
from scheduler.watch.decode import pods as decode_pods
from scheduler.watch.decode.quotas import resource_quotas
from tests.builders import as_bound
from tests.unit.loop.loop_world import Stage, playing
from webhook.mutate import pod_mutation
from webhook.mutate.json_patch import apply

Json = dict[str, Any]
#: What a pod became: its devices, its nodes, and where it is; or the sentence that refused it.
Fate = tuple[Any, ...] | str

PROFILES = ("3g.40gb", "2g.20gb", "1g.20gb", "1g.10gb")
CONFIG = Config(maps=Maps(allow="all"), fallback=Fallback(ladders=("2g.20gb->1g.20gb->1g.10gb",)))
WEBHOOK = pod_mutation.Config()
ANSWER = msgspec.json.Decoder(AdmissionDecision)

ladders = st.sampled_from(
    [
        *("2g.20gb->1g.10gb", "2g.20gb->1g.10gb[gpu-type=a100]->1g.20gb", "off", "2g->1g"),
        *("1g.10gb->2g.20gb->3g.40gb", "3g.40gb->gpu[gpu-type=h100]", "2g.20gb->1g.20gb->fail"),
        *["3g.40gb->2g.20gb->1g.20gb->1g.10gb"] * 4,
    ]
)
#: Small slices are plenty and large ones are few, so that stepping down helps.
counts = st.fixed_dictionaries(
    {profile: st.integers(0, most) for profile, most in zip(PROFILES, (1, 1, 2, 5), strict=True)}
)
sayings = st.fixed_dictionaries(
    {},
    optional={
        well_known.MIG_FALLBACK: ladders,
        well_known.MEMORY_FLOOR: st.sampled_from(["5Gi", "10Gi", "10Gi", "16Gi", "x"]),
        well_known.PREFER: st.just("preempt"),
    },
)
fields = st.sampled_from(["5Gi", "16Gi", "40Gi", "second=16Gi", "app=5Gi,second=16Gi", "x"])
SLICES = [well_known.mig_resource(profile) for profile in PROFILES]


@st.composite
def nodes(draw: st.DrawFn, number: int) -> Json:
    """A node with some slices, perhaps whole GPUs, and labels that tiers may name."""
    slices, gpus = draw(counts), draw(st.integers(0, 2))
    offered = {well_known.mig_resource(p): str(n) for p, n in slices.items()}
    labels = draw(st.sampled_from([{}, {"gpu-type": "a100"}, {"gpu-type": "h100"}]))
    memory = draw(
        st.sampled_from([{}, {well_known.GPU_MEMORY: "40536"}, {well_known.GPU_MEMORY: "81559"}])
    )
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": {**labels, **memory}},
        "status": {"allocatable": {**offered, **({well_known.GPU: str(gpus)} if gpus else {})}},
    }


@st.composite
def pods(draw: st.DrawFn, number: int) -> Json:
    """A pod of ours that requests slices, memory, both, or nothing."""
    shape = draw(st.sampled_from(["slices", "slices", "slices", "memory", "odd"]))
    asks = {
        "slices": st.sampled_from(SLICES[:3]),
        "memory": st.none(),
        "odd": st.none() | st.sampled_from([*SLICES, well_known.GPU]),
    }[shape]
    said = draw(sayings)
    if shape != "slices":
        said[well_known.WANTED_MEMORY] = draw(fields)
    containers = []
    for name in ("app", "second")[: draw(st.integers(1, 2))]:
        asked = draw(asks)
        limits = {} if asked is None else {asked: draw(st.sampled_from(["1", "1", "2"]))}
        containers.append({"name": name, "image": "x", "resources": {"limits": limits}})
    labels = draw(st.sampled_from([{}, {}, {"scheduling.x-k8s.io/pod-group": "g"}]))
    selector = draw(st.sampled_from([{}, {}, {"gpu-type": "a100"}]))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "annotations": said, "labels": labels},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "containers": containers,
            "nodeSelector": selector,
        },
    }


@st.composite
def worlds(draw: st.DrawFn) -> list[Json]:
    """Nodes, the namespace, perhaps a quota, and pods to be created in this order."""
    ladder = draw(st.none() | ladders)
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "default",
            "annotations": {} if ladder is None else {well_known.MIG_FALLBACK: ladder},
        },
    }
    hard = draw(st.dictionaries(st.sampled_from(PROFILES[2:]), st.integers(0, 3), max_size=2))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "default"},
        "spec": {
            "hard": {f"requests.{well_known.mig_resource(p)}": str(n) for p, n in hard.items()}
        },
    }
    some = [draw(nodes(number)) for number in range(draw(st.integers(1, 3)))]
    many = [draw(pods(number)) for number in range(draw(st.integers(1, 6)))]
    return [*some, space, quota, *many]


def fate(pod: Pod, node: str) -> Fate:
    """All about a pod that a tier decides."""
    given = {k: v for k, v in pod.annotations.items() if k != well_known.RESERVATION}
    return (pod.gpu_requests, pod.node_selector, pod.required_terms, given, node)


def simulated(world: list[Json]) -> dict[str, Fate]:
    """The simulator's result."""
    report = simulate([Document(place="x", raw=one) for one in world], CONFIG)
    state = report.cluster
    found: dict[str, Fate] = {
        row.pod: str(row.reason)
        for row in report.rows
        if (row.reason or "").startswith("refused at admission: ")
    }
    for uid, pod in state.pods.items():
        assumed = state.assumed.get(uid)
        found[pod.name] = fate(pod, assumed.node_name if assumed else "")
    return found


class Live:
    """A running scheduler with its webhook, and as much of an API server as they need."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._answerer = AdmissionServer(stage.loop, CONFIG.rules(), stage.metrics, stage.clock)
        self._quota = Quota(namespace="default", name="none")

    async def prepare(self, world: list[Json]) -> None:
        """The watches show what is there."""
        for one in world:
            match one["kind"]:
                case "Node":
                    filled = node_with_status(Document(place="x", raw=one)).raw
                    self._stage.see(objects.node_event(msgspec.json.encode(filled), False))
                case "Namespace":
                    self._stage.see(objects.namespace_event(msgspec.json.encode(one), False))
                case "ResourceQuota":
                    wire = resource_quotas.QUOTA.decode(msgspec.json.encode(one))
                    self._quota = resource_quotas.to_quota(wire)
        await self._show_quota()

    async def create(self, raw: Json) -> Fate:
        """One pod through admission, quota, watch and decision."""
        sent = {**raw, "metadata": {**raw["metadata"], "namespace": "default"}}
        sent["spec"] = {**with_requests(raw["spec"]), "priority": 0}
        request = pod_mutation.Request(namespace="default", scope="ours")
        case = pod_mutation.PodMutation(sent, request, WEBHOOK)
        outcome = case.outcome(await self._asked(sent) if case.needs_answer else None)
        if outcome.denial is not None:
            return f"refused at admission: {outcome.denial.message}"
        stored = apply(sent, outcome.patch)
        name = stored["metadata"]["name"]
        meta = {**stored["metadata"], "uid": name, "creationTimestamp": f"2026-11-27T{name}"}
        pod = decode_pods.to_pod(
            decode_pods.POD.decode(msgspec.json.encode({**stored, "metadata": meta}))
        )
        if self._quota.counts(pod) and self._quota.refusal(pod, {}) is not None:
            return "refused by the quota"
        self._stage.see(ev.PodUpdated(pod))
        await self._stage.quiet()
        placed = next((p for p in self._stage.binder.sent if p.pod.uid == pod.uid), None)
        if placed is not None:
            self._stage.confirm(placed)
            assert as_bound(placed).node_name == placed.node_name
        self._charge(pod)
        await self._show_quota()
        return fate(pod, placed.node_name if placed else "")

    async def _asked(self, sent: Json) -> AdmissionDecision:
        question = AdmissionQuery(
            uid="u",
            dry_run=False,
            namespace="default",
            scope="ours",
            pod=msgspec.Raw(msgspec.json.encode(sent)),
        )
        reply = await self._answerer.forwarded(msgspec.json.encode(question))
        assert reply.status == 200, reply
        return ANSWER.decode(reply.content)

    def _charge(self, pod: Pod) -> None:
        used = {r: self._quota.used.get(r, 0) + pod.requests.get(r, 0) for r in self._quota.hard}
        self._quota = msgspec.structs.replace(self._quota, used=used)

    async def _show_quota(self) -> None:
        self._stage.see(ev.QuotaUpdated(self._quota))
        await self._stage.quiet()


async def lived(world: list[Json]) -> dict[str, Fate]:
    """What webhook and scheduler do."""
    async with playing(Stage(CONFIG.pipeline())) as stage:
        stage.sync()
        live = Live(stage)
        await live.prepare(world)
        return {
            one["metadata"]["name"]: await live.create(one) for one in world if one["kind"] == "Pod"
        }


@given(worlds())
@settings(deadline=None)
def test_webhook_scheduler_and_simulator_agree(world: list[Json]) -> None:
    expected = simulated(world)
    found = asyncio.run(lived(world))

    for name, seen in found.items():
        said = expected[name]
        if seen == "refused by the quota":
            assert isinstance(said, str)
            assert said.startswith("refused at admission: exceeded quota")
        else:
            assert seen == said, name
