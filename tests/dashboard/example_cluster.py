"""A cluster of 40 nodes for the pages: five models, five namespaces, and pods that wait.

Everything has an age: the pods arrive in the order of these ages, so that waits and the history of
the last day are those of a cluster that ran for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import Quota
from scheduler.model.timestamps import micro_time
from scheduler.state import event as ev
from tests.builders import GPU, cut, dynamic, node, pod

DAY_H: Final = 24.0
NODES: Final = 40
H100: Final = {well_known.GPU_PRODUCT: "NVIDIA-H100-80GB-HBM3", well_known.GPU_MEMORY: "81559"}
H200: Final = {well_known.GPU_PRODUCT: "NVIDIA-H200", well_known.GPU_MEMORY: "143771"}
L40S: Final = {well_known.GPU_PRODUCT: "NVIDIA-L40S", well_known.GPU_MEMORY: "46068"}
A100: Final = {well_known.GPU_PRODUCT: "NVIDIA-A100-SXM4-40GB", well_known.GPU_MEMORY: "40960"}
ROOM: Final[dict[str, Any]] = {"cpu": "192", "memory": "2048Gi"}
SLICES: Final = {"3g.20gb": 2, "2g.10gb": 2, "1g.5gb": 4}


class Arrival(NamedTuple):
    """An event of the watch, and how many hours ago it came."""

    age_h: float
    event: ev.Event


def _labels(board: dict[str, str], gpus: int, number: int) -> dict[str, str]:
    zone = {well_known.ZONE: f"eu-1{'ab'[number % 2]}"}
    return {**board, **zone, well_known.GPU_COUNT: str(gpus)}


def nodes() -> Iterator[Node]:
    """The nodes: some are cordoned, not ready, tainted, or have failed GPUs."""
    failed = {"h100-11": "7", "l40s-03": "2"}
    for number in range(1, 17):
        name = f"h100-{number:02}"
        annotations = {well_known.UNUSABLE_DEVICES: failed[name]} if name in failed else {}
        usable = 7 if name in failed else 8
        yield node(
            name,
            **ROOM,
            gpus=usable,
            with_gpu_indexes=True,
            labels=_labels(H100, 8, number),
            annotations=annotations,
            cordoned=name == "h100-16",
        )
    for number in range(1, 5):
        taints = ("gpu=reserved:NoSchedule",) if number > 2 else ()
        labels = _labels(H200, 8, number)
        yield node(f"h200-{number:02}", **ROOM, gpus=8, labels=labels, taints=taints)
    for number in range(1, 7):
        name = f"l40s-{number:02}"
        yield node(
            name,
            **ROOM,
            gpus=3 if name in failed else 4,
            with_gpu_indexes=True,
            labels=_labels(L40S, 4, number),
            annotations={well_known.UNUSABLE_DEVICES: failed[name]} if name in failed else {},
            taints=("node.kubernetes.io/not-ready:NoExecute",) if number == 6 else (),
        )
    for number in range(1, 9):
        yield node(f"a100-{number:02}", **ROOM, mig=SLICES, labels=_labels(A100, 2, number))
    for number in range(1, 7):
        zone = {well_known.ZONE: f"eu-1{'ab'[number % 2]}", well_known.GPU_MEMORY: "81920"}
        yield dynamic(f"a100-dyn-{number:02}", gpus=4, labels=zone, **ROOM)


#: Pods on GPUs by index: namespace, name, node, indexes, hours.
HELD: Final = (
    *(("team-nlp", f"llama-{n}", f"h100-{n + 1:02}", "0-7", 75.0 - n) for n in range(5)),
    ("team-nlp", "vllm-0", "h100-06", "0-3", 140.0),
    ("team-nlp", "vllm-1", "h100-07", "0-3", 139.0),
    ("team-vision", "segment-0", "h100-06", "4-7", 20.0),
    ("team-vision", "segment-1", "h100-07", "4-5", 19.5),
    *(("team-vision", f"detect-{n}", f"h100-{n + 8:02}", "0-5", 16.0 - n) for n in range(3)),
    ("team-vision", "detect-3", "h100-11", "0-3", 9.0),
    ("research", "exp-21", "h100-12", "0-3", 30.0),
    ("research", "exp-22", "h100-12", "4-5", 12.0),
    ("research", "exp-23", "h100-13", "0-1", 6.0),
    ("research", "exp-24", "h100-14", "2-4", 6.4),
    ("speech", "asr-0", "h100-13", "2-6", 52.0),
    ("speech", "asr-1", "h100-15", "0-6", 8.1),
    ("speech", "tts-0", "h100-08", "6-6", 2.0),
    ("platform", "burn-in", "h100-16", "0-1", 1.0),
    *(("speech", f"serve-{n}", f"l40s-{n + 1:02}", "0-1", 44.0 + n) for n in range(4)),
    ("platform", "triton", "l40s-05", "0-0", 200.0),
)
#: Pods on slices: namespace, name, node, profile, hours, profile that was requested first.
SLICED: Final = (
    *(("research", f"jupyter-{n}", f"a100-{n + 1:02}", "3g.20gb", 26.0 - n, "") for n in range(8)),
    *(("team-vision", f"infer-{n}", f"a100-{n + 1:02}", "3g.20gb", 11 - n, "") for n in range(8)),
    *(("speech", f"wav-{n}", f"a100-{n + 1:02}", "2g.10gb", 8 - n, "3g.20gb") for n in range(3)),
    *(("platform", f"ci-{n}", f"a100-{n + 2:02}", "1g.5gb", 2.0 + n, "") for n in range(6)),
)
#: Pods on dynamic MIG nodes: namespace, name, node, placement.
CUT: Final = (
    ("research", "fine-tune-0", "a100-dyn-01", "3g.40gb@0/4"),
    ("research", "fine-tune-1", "a100-dyn-01", "3g.40gb@1/0"),
    ("team-vision", "embed-0", "a100-dyn-01", "2g.20gb@1/4"),
    ("team-nlp", "rerank-0", "a100-dyn-02", "2g.20gb@0/0"),
    ("team-nlp", "rerank-1", "a100-dyn-02", "1g.10gb@0/2"),
    ("speech", "diarize-0", "a100-dyn-03", "4g.40gb@0/0"),
)


def _text(now: datetime, age_h: float) -> str:
    return micro_time(now - timedelta(hours=age_h))


def aged(now: datetime, age_h: float, one: Pod) -> Arrival:
    """The pod with its times."""
    at = _text(now, age_h)
    started = at if one.node_name else ""
    shown = msgspec.structs.replace(one, created=at, started=started)
    return Arrival(age_h, ev.PodUpdated(shown))


def _held(now: datetime) -> Iterator[Arrival]:
    for namespace, name, node_name, span, age_h in HELD:
        first, last = map(int, span.split("-"))
        numbers = ",".join(str(index) for index in range(first, last + 1))
        fields: Any = {"gpus": last - first + 1, "devices": f"gpu:{numbers}", "phase": "Running"}
        owner = f"StatefulSet/{name.rpartition('-')[0] or name}"
        made = pod(name, namespace=namespace, node=node_name, owner=owner, **fields)
        yield aged(now, age_h, made)
    for number, age_h in enumerate((60.0, 13.0)):
        made = pod(f"mixtral-{number}", namespace="team-nlp", node=f"h200-0{number + 1}", gpus=6)
        yield aged(now, age_h, msgspec.structs.replace(made, phase="Running"))


def _sliced(now: datetime) -> Iterator[Arrival]:
    for namespace, name, node_name, profile, age_h, asked in SLICED:
        annotations = {}
        if asked:
            annotations = {
                well_known.FALLBACK: f"{asked}->{profile}",
                well_known.ORIGINAL: f'{{"{well_known.mig_resource(asked)}":"1"}}',
            }
        owner = f"Deployment/{name.rpartition('-')[0]}"
        fields: Any = {"mig": {profile: 1}, "annotations": annotations, "phase": "Running"}
        made = pod(name, namespace=namespace, node=node_name, owner=owner, **fields)
        yield aged(now, age_h, made)
    for namespace, name, node_name, placement in CUT:
        profile = placement.partition("@")[0]
        fields = {"mig": {profile: 1}, "devices": placement, "phase": "Running"}
        made = pod(name, namespace=namespace, node=node_name, **fields)
        yield aged(now, 7.0, made)


def _waiting(now: datetime) -> Iterator[Arrival]:
    for number in range(4):
        owner, requests = "Job/llama-next", {"cpu": "32", "memory": "256Gi"}
        fields: Any = {"gpus": 8, "priority": 100, "owner": owner, "requests": requests}
        yield aged(now, 5.0, pod(f"llama-next-{number}", namespace="team-nlp", **fields))
    for number in range(2):
        fields = {"gpus": 8, "owner": "Job/exp-30"}
        yield aged(now, 2.4, pod(f"exp-30-{number}", namespace="research", **fields))
    yield aged(now, 1.7, pod("jupyter-8", namespace="research", mig={"3g.20gb": 1}))
    fields = {"gpus": 1, "selector": {"gpu-model": "b200"}, "owner": "Deployment/eval"}
    yield aged(now, 0.6, pod("eval-0", namespace="team-vision", **fields))
    spec = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "frames"}}]}
    yield aged(now, 0.3, pod("render-0", namespace="team-vision", gpus=1, spec=spec))


def placeable(now: datetime) -> Arrival:
    """A pod for which there is room: the scheduler binds it."""
    fields: Any = {"gpus": 2, "owner": "StatefulSet/notebook", "selector": dict(L40S_NODES)}
    return aged(now, 0.1, pod("notebook-0", namespace="research", **fields))


L40S_NODES: Final = {well_known.GPU_PRODUCT: "NVIDIA-L40S"}


def _quotas() -> Iterator[Quota]:
    for namespace, used, hard in (
        ("team-nlp", 60, 64),
        ("team-vision", 28, 32),
        ("speech", 21, 32),
    ):
        yield Quota(namespace=namespace, name="gpus", used={GPU: used}, hard={GPU: hard})


def arrivals(now: datetime) -> list[Arrival]:
    """All events until ``now``, the oldest first."""
    start = [Arrival(1000.0, ev.NodeUpdated(one)) for one in nodes()]
    start += [Arrival(1000.0, ev.QuotaUpdated(one)) for one in _quotas()]
    made = [*_held(now), *_sliced(now), *_waiting(now), placeable(now)]
    made += [Arrival(900.0, ev.PartitionsUpdated(cut("a100-dyn-01", "3g.40gb@0/4", "1g.10gb@0/0")))]
    return start + sorted(made, key=lambda one: -one.age_h)
