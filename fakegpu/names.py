"""Every name of the fake GPUs that other programs see.

The seed operator's names are kept byte for byte; ours have the product's prefix. The resources and
the prefix are imported from the scheduler (``scheduler/model/well_known``), so they cannot differ.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.well_known import GPU_IDS as SCHEDULER_GPU_IDS
from scheduler.model.well_known import PREFIX, UNUSABLE_DEVICES

OPERATOR: Final = "fake-gpu-operator"
NAMESPACE: Final = "gpu-operator"
RESERVATION_NAMESPACE: Final = "runai-reservation"

# --- ConfigMaps ---------------------------------------------------------------------------
TOPOLOGY_CM: Final = "topology"
TOPOLOGY_KEY: Final = "topology.yml"
#: On a node's ConfigMap, written by its agent: the devices of each container (JSON).
ASSIGNED_KEY: Final = "assigned.json"
PROFILE_CM_PREFIX: Final = "gpu-profile-"
PROFILE_KEY: Final = "profile.yaml"
NODE_TOPOLOGY_LABEL: Final = "node-topology"
NODE_NAME_LABEL: Final = "node-name"
#: On a node's ConfigMap: the last applied MIG configuration, and its result.
MIG_APPLIED: Final = PREFIX + "fake-mig-applied"

# --- what users write on nodes ------------------------------------------------------------
POOL_LABEL: Final = "run.ai/simulated-gpu-node-pool"
KWOK_ANNOTATION: Final = "kwok.x-k8s.io/node"  # value "fake"
MIG_CONFIG: Final = "run.ai/mig.config"  # annotation
MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
PLUGIN_CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
FAILURES: Final = PREFIX + "fake-failures"  # annotation: "1:xid-79,3:off-bus"
ALLOCATABLE: Final = PREFIX + "fake-allocatable"  # annotation: "nvidia.com/gpu=2"
MIG_FAULTS: Final = PREFIX + "fake-mig"  # annotation: "latency=5s,fail=0.5"

# --- what the operator writes on nodes ----------------------------------------------------
MIG_STATE: Final = "nvidia.com/mig.config.state"
MIG_MAPPING: Final = "run.ai/mig-mapping"  # annotation
UNUSABLE: Final = UNUSABLE_DEVICES  # annotation
GPU_IDS: Final = SCHEDULER_GPU_IDS  # annotation
DEPLOY_EXPORTER: Final = "nvidia.com/gpu.deploy.dcgm-exporter"
DEPLOY_ON_NODE: Final = (
    "nvidia.com/gpu.deploy.device-plugin",
    "nvidia.com/gpu.deploy.dra-plugin-gpu",
    "nvidia.com/gpu.deploy.compute-domain-dra-plugin",
)
GPU: Final = "nvidia.com/gpu"
FAKE: Final = "run.ai/fake.gpu"

# --- NUMA zones ---------------------------------------------------------------------------
ZONES_API: Final = "topology.node.k8s.io/v1alpha2"

# --- DRA ----------------------------------------------------------------------------------
DRA_DRIVER: Final = "gpu.nvidia.com"
DOMAIN_DRIVER: Final = "compute-domain.nvidia.com"
CHANNEL: Final = "channel-0"
XID_TAINT: Final = f"{DRA_DRIVER}/xid"

# --- pods ---------------------------------------------------------------------------------
UTILIZATION: Final = "run.ai/simulated-gpu-utilization"
TIMELINE: Final = PREFIX + "fake-utilization"  # annotation: "0 for 5m, 80-100 for 1h, repeat"
FRACTION: Final = "gpu-fraction"
WORKLOAD_KIND: Final = "workloadKind"
POD_GROUP: Final = "pod-group-name"
SHARED_INDEX: Final = "runai-gpu"
SHARED_GROUP: Final = "runai-gpu-group"
RESERVED_INDEX: Final = "run.ai/reserve_for_gpu_index"
IDLE_PREFIX: Final = "runai-idle-gpu-"
