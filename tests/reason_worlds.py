"""For each reason code the smallest world that shows it."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.framework.pipeline import Pipeline
from scheduler.framework.settings import Settings
from scheduler.model.dra.allocation import Allocation, DeviceResult
from scheduler.model.dra.claim_plan import ClaimPlan, PlannedClaim
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import ReasonCode
from scheduler.model.teams.team import Team, TeamTable
from scheduler.plugins import REASON_CODES, default_pipeline
from scheduler.state.cache.cluster import Cluster
from scheduler.state.snapshot import Avoided, GpusInBackoff
from tests.builders import (
    ALLOW_ALL_MAPS,
    GPU,
    PodFields,
    cluster,
    container,
    downward,
    dynamic,
    node,
    pod,
)
from tests.dra import (
    CLASS,
    allocation_json,
    claiming,
    device_class,
    device_json,
    request_json,
    resource_claim,
    resource_slice,
    result_json,
)
from tests.storage import (
    ZONE,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    uses,
    volume,
)

TEAMS = TeamTable(teams={"team": Team(name="team", limit_slices=0)})
PIPELINES = {
    REASON_CODES["MAP_NOT_ALLOWED"]: default_pipeline(),
    REASON_CODES["NOT_MUTATED"]: default_pipeline(Settings(maps_allow="all", expects_webhook=True)),
    REASON_CODES["TOO_COMPLEX"]: default_pipeline(Settings(decision_steps_max=1)),
}
FOUR = node(gpus=4, with_gpu_indexes=True)
FAILED = node(gpus=3, annotations={"gpu-scheduler.io/unusable-devices": "1"})
MEMORY = "nvidia.com/gpu.memory"
LEAST = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": MEMORY, "operator": "Gt", "values": ["40000"]}]}
            ]
        }
    }
}
WEB, SET = "Deployment/web@r1", "StatefulSet/w"
HOLDER = pod("web-a", owner=WEB, map="0=n1:0", node="n1", index=0, devices="gpu:0")

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APP_X = {"labelSelector": {"matchLabels": {"app": "x"}}}
NEAR_X = [{**APP_X, "topologyKey": "zone"}]
APART: dict[str, Any] = {"affinity": {"podAntiAffinity": {REQUIRED: NEAR_X}}}
EVENLY = {**APP_X, "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
ZONE_A = node(labels={"zone": "a"})
IN_ZONE = {"gpu-scheduler.io/topology-required": "zone"}
HOLDER_IN_ZONE = pod("w-1", owner=SET, annotations=IN_ZONE, node="n2")
X_IN_A = pod("x", node="n1", labels={"app": "x"})

LOCAL, FAST = storage_class(), storage_class("fast", provisioner="x.example/y")
ONE_POD: dict[str, Any] = {"modes": ["ReadWriteOncePod"], "volume": "pv"}
ON_N2 = volume(host="n2", for_claim="team/data", claim_uid="uid-data")
DISK = {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "d"}}]}
#: A MIG partition of NVIDIA's DRA driver.
PARTITION = resource_slice(
    "n1",
    device_json("p", attributes={"profile": {"string": "1g.10gb"}}),
    driver="gpu.nvidia.com",
)
#: What each is about stands first: a claim, a volume, or a pod that uses it.
VOLUMES: dict[str, tuple[list[Any], PodFields]] = {
    "CLAIM_NOT_FOUND": ([FOUR], {"spec": uses("data")}),
    "CLAIM_NOT_USABLE": ([claim(deleting=True), FOUR], {"spec": uses("data")}),
    "CLAIM_NOT_BOUND": (
        [claim(class_name="now"), storage_class("now", delayed=False), FOUR],
        {"spec": uses("data")},
    ),
    "CLAIM_IN_USE": (
        [claim(**ONE_POD), volume(), FOUR, pod("a", node="n1", spec=uses("data"))],
        {"spec": uses("data")},
    ),
    "DISK_IN_USE": ([FOUR, pod("a", node="n1", spec=DISK)], {"spec": DISK}),
    "VOLUME_LIMIT": (
        [FOUR, claim(class_name="fast"), FAST, csi_node("n1", {"x.example/y": 0})],
        {"spec": uses("data")},
    ),
    "CSI_DRIVER_MISSING": (
        [FOUR, claim(class_name="fast"), FAST, csi_driver("x.example/y", required=True)],
        {"spec": uses("data")},
    ),
    "VOLUME_NOT_FOUND": ([claim(volume="gone"), FOUR], {"spec": uses("data")}),
    "VOLUME_AFFINITY": ([claim(volume="pv"), ON_N2, FOUR], {"spec": uses("data")}),
    "VOLUME_ZONE": (
        [claim(volume="pv"), volume(labels={ZONE: "b"}), node(labels={ZONE: "a"})],
        {"spec": uses("data")},
    ),
    "VOLUME_NOT_AVAILABLE": ([claim(), LOCAL, FOUR], {"spec": uses("data")}),
    "STORAGE_FULL": (
        [claim(class_name="fast"), FAST, csi_driver("x.example/y", capacity=True), FOUR],
        {"spec": uses("data")},
    ),
    "MAP_AND_VOLUME": (
        [claim(volume="pv"), ON_N2, FOUR],
        {"map": "0=n1:0", "spec": uses("data")},
    ),
}

CLAIMING: PodFields = {"spec": claiming("gpu")}
CEL = 'device.attributes["gpu.example.com"].missing == 1'
TWO_GPUS = resource_slice("n1", "gpu-0", "gpu-1")
TWICE = resource_slice("n1", "gpu-0", "gpu-0")
ON_N9 = allocation_json(result_json("gpu-0", "n9"), node="n9")
PENDING = Allocation(
    results=(DeviceResult(request="gpu", driver=CLASS, pool="n1", device="gpu-0"),)
)
MANY = resource_slice("n1", *(f"gpu-{at}" for at in range(20)))
NVIDIA = "gpu.nvidia.com"
ON_DRA = [
    node(),
    resource_slice("n1", "gpu-0", "gpu-1", driver=NVIDIA),
    device_class(NVIDIA, f"device.driver == '{NVIDIA}'", extendedResourceName=GPU),
]
CLAIMS: dict[str, tuple[list[Any], PodFields]] = {
    "RESOURCE_CLAIM_NOT_FOUND": ([FOUR], CLAIMING),
    "RESOURCE_CLAIM_NOT_USABLE": ([resource_claim(deleting=True), FOUR], CLAIMING),
    "RESOURCE_CLAIM_PENDING": (
        [resource_claim(), ClaimPlan("n1", (PlannedClaim("team/gpu", "uid-gpu", PENDING),)), FOUR],
        CLAIMING,
    ),
    "RESOURCE_CLAIM_SHARED": (
        [resource_claim(), device_class(), FOUR, pod("a", scheduler="other", spec=claiming("gpu"))],
        CLAIMING,
    ),
    "DEVICE_CLASS_NOT_FOUND": ([resource_claim(), FOUR], CLAIMING),
    "RESOURCE_CLAIM_ELSEWHERE": ([resource_claim(allocation=ON_N9), FOUR], CLAIMING),
    "DEVICES_NOT_AVAILABLE": ([resource_claim(), device_class(), FOUR], CLAIMING),
    "DEVICE_POOL_INVALID": ([resource_claim(), device_class(), TWICE, FOUR], CLAIMING),
    "DEVICE_SELECTOR_FAILED": (
        [resource_claim(), device_class(CLASS, CEL), TWO_GPUS, FOUR],
        CLAIMING,
    ),
    "DEVICE_REQUEST_IMPOSSIBLE": (
        [resource_claim("gpu", request_json(count=33)), device_class(), MANY, FOUR],
        CLAIMING,
    ),
    "MAP_CLAIM_MISMATCH": (
        [resource_claim("gpu", request_json("a", NVIDIA, count=2)), *ON_DRA],
        {"map": "0=n1:1", **CLAIMING},
    ),
    "DEVICE_SEARCH_LIMIT": (
        [
            resource_claim("gpu", request_json("a", count=10), request_json("b", count=11)),
            device_class(),
            MANY,
            FOUR,
        ],
        CLAIMING,
    ),
}

EXAMPLES: dict[ReasonCode, tuple[list[Any], PodFields]] = {
    REASON_CODES["NODE_UNSCHEDULABLE"]: ([node(cordoned=True)], {}),
    REASON_CODES["TAINT"]: ([node(taints=["a:NoSchedule"])], {}),
    REASON_CODES["AFFINITY"]: ([node()], {"selector": {"zone": "b"}}),
    REASON_CODES["PORTS"]: (
        [node(), pod("a", node="n1", ports=[{"containerPort": 1, "hostPort": 80}])],
        {"ports": [{"containerPort": 1, "hostPort": 80}]},
    ),
    REASON_CODES["POD_AFFINITY"]: (
        [ZONE_A],
        {"spec": {"affinity": {"podAffinity": {REQUIRED: NEAR_X}}}},
    ),
    REASON_CODES["POD_ANTI_AFFINITY"]: ([ZONE_A, X_IN_A], {"spec": APART}),
    REASON_CODES["EXISTING_ANTI_AFFINITY"]: (
        [ZONE_A, pod("y", node="n1", spec=APART)],
        {"labels": {"app": "x"}},
    ),
    REASON_CODES["TOPOLOGY_SPREAD"]: (
        [ZONE_A, X_IN_A, node("n2", cordoned=True, labels={"zone": "b"})],
        {"labels": {"app": "x"}, "spec": {"topologySpreadConstraints": [EVENLY]}},
    ),
    REASON_CODES["TOPOLOGY_LABEL"]: ([node()], {"spec": {"topologySpreadConstraints": [EVENLY]}}),
    REASON_CODES["DECLARED_FEATURES"]: (
        [FOUR],
        {"spec": {"hostNetwork": True, "hostUsers": False}},
    ),
    REASON_CODES["TOO_MANY_PODS"]: ([node(pods=1), pod("a", node="n1")], {}),
    REASON_CODES["INSUFFICIENT"]: ([FOUR], {"gpus": 5}),
    REASON_CODES["NO_DEVICE_CLASS"]: ([node(), PARTITION], {"mig": {"1g.10gb": 1}}),
    REASON_CODES["INSTANCES_DO_NOT_FIT_TOGETHER"]: (
        [dynamic()],
        {"mig": {"2g.20gb": 2, "3g.40gb": 1, "1g.20gb": 1}},
    ),
    REASON_CODES["MIG_NOT_READY"]: (
        [node(gpus=4, labels={"nvidia.com/mig.config.state": "pending"})],
        {"gpus": 1},
    ),
    REASON_CODES["GPU_RESOURCE_IS_MIG"]: (
        [node(gpus=7, labels={"nvidia.com/gpu.product": "NVIDIA-A30-MIG-1g.6gb"})],
        {"gpus": 2},
    ),
    REASON_CODES["GPU_MEMORY_TOO_SMALL"]: (
        [node(gpus=1, labels={MEMORY: "24564"})],
        {"gpus": 1, "spec": {"affinity": LEAST}},
    ),
    REASON_CODES["GPU_MEMORY_UNKNOWN"]: ([node(gpus=1)], {"gpus": 1, "spec": {"affinity": LEAST}}),
    REASON_CODES["GPU_BACKOFF"]: (
        [dynamic(), GpusInBackoff(node_name="n1", gpus=(0,))],
        {"mig": {"2g.20gb": 1}},
    ),
    REASON_CODES["KUBELET_ASSIGNS_DEVICES"]: (
        [node(gpus=4), pod("a", gpus=1, node="n1")],
        {"map": "0=n1:1"},
    ),
    REASON_CODES["DEVICE_HELD"]: ([FOUR, HOLDER], {"map": "0=n1:0"}),
    REASON_CODES["DEVICE_FAILED"]: ([FAILED], {"map": "0=n1:1"}),
    REASON_CODES["DEVICE_NOT_FOUND"]: ([FOUR], {"map": "0=n1:4"}),
    REASON_CODES["DEVICE_INDEX_UNKNOWN"]: (
        [node(), TWO_GPUS, device_class(extendedResourceName=GPU)],
        {"map": "0=n1:0", "gpus": 1},
    ),
    REASON_CODES["MAP_WITHOUT_CLAIM"]: (ON_DRA, {"map": "0=n1:0"}),
    REASON_CODES["DEVICE_ASSIGNMENT_UNKNOWN"]: ([FOUR, pod("a", gpus=1, node="n1")], {"gpus": 1}),
    REASON_CODES["NODE_AVOIDED"]: ([FOUR, Avoided(node_name="n1", scopes=("",))], {}),
    REASON_CODES["TOO_MANY_IN_ONE_CONTAINER"]: (
        [FOUR, Avoided(node_name="n1", scopes=(f"{GPU}<=1",))],
        {"gpus": 2},
    ),
    REASON_CODES["NOT_IN_MAP"]: ([FOUR, node("n2")], {"map": "0=n1:4"}),
    REASON_CODES["MAP_INVALID"]: ([FOUR], {"map": "0=n1:x"}),
    REASON_CODES["MAP_NOT_ALLOWED"]: ([FOUR], {"map": "0=n1:0"}),
    REASON_CODES["TOO_COMPLEX"]: ([FOUR], {"selector": {"zone": "a"}}),
    REASON_CODES["MAP_NODE_UNKNOWN"]: ([FOUR], {"map": "0=n9:0"}),
    REASON_CODES["MAP_NODE_AMBIGUOUS"]: (
        [node("a", labels={"gpu-node": "x"}), node("b", labels={"gpu-node": "x"})],
        {"map": "0=x:0"},
    ),
    REASON_CODES["MAP_CHANGED"]: (
        [FOUR],
        {
            "map": "0=n1:0",
            "containers": [container(env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "3"}])],
        },
    ),
    REASON_CODES["INDEX_UNKNOWN"]: ([FOUR], {"map": "0=n1:0"}),
    REASON_CODES["INDEX_NOT_IN_MAP"]: ([FOUR], {"map": "1=n1:0"}),
    REASON_CODES["INDEX_HELD"]: (
        [FOUR, pod("w-0", uid="old", owner=SET, map="0=n1:0", node="n1", index=0, deleting=True)],
        {"map": "0=n1:0", "owner": SET},
    ),
    REASON_CODES["NO_FREE_MAP_LINE"]: ([FOUR, HOLDER], {"map": "0=n1:0", "owner": WEB}),
    REASON_CODES["INDEX_HELD_BY_OLDER_REVISION"]: (
        [FOUR, HOLDER],
        {"map": "0=n1:0", "owner": "Deployment/web@r2"},
    ),
    REASON_CODES["MAP_REQUEST_MISMATCH"]: ([FOUR], {"map": "0=n1:0", "gpus": 2}),
    REASON_CODES["NO_DEVICE_FOR_ENV"]: ([FOUR], {"containers": [container(env=[downward()])]}),
    REASON_CODES["NOT_MUTATED"]: ([FOUR], {"map": "0=n1:0"}),
    REASON_CODES["OUTSIDE_DOMAIN"]: (
        [node(gpus=4), HOLDER_IN_ZONE, node("n2", gpus=0, labels={"zone": "a"})],
        {"gpus": 1, "owner": SET, "annotations": IN_ZONE},
    ),
    REASON_CODES["NO_TOPOLOGY_LABEL"]: (
        [node(gpus=4), node("n2", gpus=0, labels={"zone": "a"})],
        {"gpus": 1, "annotations": IN_ZONE},
    ),
    REASON_CODES["UNKNOWN_LEVEL"]: ([FOUR], {"gpus": 1, "annotations": IN_ZONE}),
    REASON_CODES["UNREADABLE"]: ([FOUR], {"mig": {"1g.10gb": 2**63 - 1}}),
    REASON_CODES["NODE_UNREADABLE"]: ([node(gpus=257, with_gpu_indexes=True)], {"gpus": 1}),
    REASON_CODES["UNSUPPORTED"]: ([FOUR], {"spec": {"workloadRef": {"name": "x"}}}),
    REASON_CODES["NO_NODES"]: ([], {"gpus": 1}),
    REASON_CODES["QUOTA_EXCEEDED"]: ([TEAMS, FOUR], {"gpus": 1}),
    **{REASON_CODES[name]: example for name, example in (VOLUMES | CLAIMS).items()},
}

#: Reasons of gangs, which are about several pods.
GANGS: dict[ReasonCode, PodFields] = {
    REASON_CODES["WAITING_FOR_MEMBERS"]: {
        "labels": {"gpu-scheduler.io/group": "train"},
        "annotations": {"gpu-scheduler.io/group-min": "2"},
    },
    REASON_CODES["GROUP_NOT_FOUND"]: {"labels": {"scheduling.x-k8s.io/pod-group": "train"}},
    REASON_CODES["NO_DOMAIN_FITS"]: {
        "gpus": 1,
        "labels": {"gpu-scheduler.io/group": "train"},
        "annotations": {"gpu-scheduler.io/group-min": "2", **IN_ZONE},
    },
}
#: A failure of ours is no answer of a decision: the loop makes it (tests/unit/loop).
_ELSEWHERE = {REASON_CODES["INTERNAL"], *GANGS}
DECIDED = [code for code in REASON_CODES.values() if code not in _ELSEWHERE]


class World(msgspec.Struct, frozen=True):
    """A cluster and a pod that it rejects."""

    cluster: Cluster
    pod: Pod
    pipeline: Pipeline


def world_of(code: ReasonCode) -> World:
    """A new world in which a pod is rejected for this code."""
    if code is REASON_CODES["NO_DOMAIN_FITS"]:
        return _world_of_zones(GANGS[code])
    if code in GANGS:
        return _world_of_gang(pod("w-0", **GANGS[code]))
    objects, fields = EXAMPLES[code]
    name = "solo" if code is REASON_CODES["INDEX_UNKNOWN"] else "w-0"
    pipeline = PIPELINES.get(code, ALLOW_ALL_MAPS)
    return World(cluster(*objects), pod(name, **fields), pipeline)


def _world_of_gang(member: Pod) -> World:
    """The PodGroups of scheduler-plugins are installed, and there is none."""
    state = cluster(FOUR)
    state.gangs.replace_groups((), is_served=True)
    state.upsert_pod(member)
    return World(state, member, ALLOW_ALL_MAPS)


def _world_of_zones(fields: PodFields) -> World:
    """Two zones with room for one of two members each."""
    nodes = [node(f"n{at}", gpus=1, labels={"zone": f"z{at}"}) for at in (1, 2)]
    member = pod("w-0", **fields)
    return World(cluster(*nodes, member, pod("w-1", **fields)), member, ALLOW_ALL_MAPS)
