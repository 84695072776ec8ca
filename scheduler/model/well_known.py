"""Every name that other programs see: annotations, labels, resources.

The seed systems' names are kept byte for byte; ours have the prefix ``gpu-scheduler.io/``. No other
module contains such a name.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

SCHEDULER_NAME: Final = "gpu-scheduler"
PREFIX: Final = "gpu-scheduler.io/"
VENDOR: Final = "nvidia.com/"

#: kubelet's label with the name of its machine.
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

# --- what users write -------------------------------------------------------------------
MAP: Final = "gpu-scheduling-map"
CUDA_MODE: Final = PREFIX + "cuda-mode"
MIG_FALLBACK: Final = PREFIX + "mig-fallback"
MEMORY_FLOOR: Final = PREFIX + "memory-floor"
WANTED_MEMORY: Final = PREFIX + "gpu-memory"
RESTORE: Final = PREFIX + "restore"
PREFER: Final = PREFIX + "prefer"
GROUP: Final = PREFIX + "group"  # label: the group of the pod
GROUP_MIN: Final = PREFIX + "group-min"  # the members that are bound together or not at all
GROUP_FROM: Final = PREFIX + "group-from"  # "owner" or "role": the gang of the pod's owner
RECLAIMABLE: Final = PREFIX + "reclaimable"  # "false": runs only inside its team's guarantee
#: Label keys of nodes: the pod's group stays within one value, or on few values.
TOPOLOGY_REQUIRED: Final = PREFIX + "topology-required"
TOPOLOGY_PREFERRED: Final = PREFIX + "topology-preferred"
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"  # kubectl's own

# --- what the Binding writes (protected) ---------------------------------
POD_INDEX: Final = PREFIX + "pod-index"
DEVICES: Final = PREFIX + "devices"
CUDA_VISIBLE_DEVICES: Final = PREFIX + "cuda-visible-devices"
DECISION: Final = PREFIX + "decision"
EPOCH: Final = PREFIX + "epoch"
# --- what the webhook writes (protected) --------------------------------------------------
RESERVATION: Final = PREFIX + "reservation"
MIGRATION: Final = PREFIX + "migration"
FORMER_MIGRATION: Final = PREFIX + "move"  # only read, as MIGRATION (model/crd/former_version)
# --- records that the webhook writes (not protected; they only affect migrations, or nothing) ---
TIER_NODES: Final = PREFIX + "tier-nodes"
MEMORY_GIVEN: Final = PREFIX + "gpu-memory-given"
MAP_REQUEST: Final = PREFIX + "map-request"

# --- on the Lease -------------------------------------------------------------------------
LEADER_ADDRESS: Final = PREFIX + "leader-address"

#: Keys that only a Binding may write. A share for one container is ``<key>.<position>``.
BINDING_KEYS: Final = (POD_INDEX, DEVICES, CUDA_VISIBLE_DEVICES, DECISION, EPOCH)
#: Keys that only the webhook may write, at CREATE.
ADMISSION_KEYS: Final = (RESERVATION, MIGRATION, FORMER_MIGRATION)

# --- the seeds' annotations ---------------------------------------------------------------
FALLBACK: Final = "gpu-webhook.k8s.io/fallback"
ORIGINAL: Final = "adapter.gpu.turbonomic.ibm.com/original"
MIG_CONFIG: Final = "run.ai/mig.config"  # on nodes: a document with the MIG instances of GPUs

# --- labels -------------------------------------------------------------------------------
NODE_ALIASES: Final = ("gpu-node-name", "gpu-node")  # in the order of precedence
NUMBERED: Final = PREFIX + "devices"  # node label; value "numbered"
#: Node annotation: indexes of GPUs that failed, such as ``1,3``.
UNUSABLE_DEVICES: Final = PREFIX + "unusable-devices"
#: Node annotation: the ids of its GPUs in the order of their indexes, such as ``GPU-a,GPU-b``.
GPU_IDS: Final = PREFIX + "gpu-ids"
#: Node label: the data set on the node; pod annotation: data sets, separated by commas.
DATA: Final = PREFIX + "data"
MIG_DYNAMIC: Final = PREFIX + "mig-dynamic"  # node label; value "true"
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
GPU_COUNT: Final = "nvidia.com/gpu.count"
GPU_MEMORY: Final = "nvidia.com/gpu.memory"  # MiB of one GPU
GPU_REPLICAS: Final = "nvidia.com/gpu.replicas"  # shares of one GPU; 0 if all have MIG instances
#: Labels that feature discovery always writes beside a device plugin's configuration.
DISCOVERED: Final = (GPU_REPLICAS, "nvidia.com/gpu.sharing-strategy")
DEPLOY_PLUGIN: Final = "nvidia.com/gpu.deploy.device-plugin"  # node label; the GPU operator's
#: Node label of GKE: the MIG profile whose instances ``nvidia.com/gpu`` counts there.
GKE_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"
MIG_STRATEGY: Final = "nvidia.com/mig.strategy"  # node label; none, single or mixed
MIG_STATE: Final = "nvidia.com/mig.config.state"  # node label; the state of the MIG configuration
MIG_WANTED: Final = "nvidia.com/mig.config"  # node label; the wanted MIG configuration
MIG_CAPABLE: Final = "nvidia.com/mig.capable"  # node label; "false" if no GPU supports MIG
MIG_MANAGER: Final = "nvidia.com/gpu.deploy.mig-manager"  # node label; "true": it runs there
#: Labels of nodes that filters read for every pod.
FILTER_LABELS: Final = (
    *(*NODE_ALIASES, NUMBERED, MIG_DYNAMIC),
    *(MIG_STATE, MIG_WANTED, MIG_MANAGER, GPU_PRODUCT, MIG_STRATEGY),
    *(GPU_COUNT, *DISCOVERED, DEPLOY_PLUGIN),
    *(GPU_MEMORY, GKE_PARTITION, MIG_CAPABLE),
)
#: The stored annotations of a node.
NODE_ANNOTATIONS: Final = (MIG_CONFIG, UNUSABLE_DEVICES, GPU_IDS)
MAPS_ALLOWED: Final = PREFIX + "maps"  # namespace label; value "allowed"
#: Namespace annotations with the quota of a team, such as ``slices=28,gb=320``.
TEAM_GUARANTEE: Final = PREFIX + "team-guarantee"
TEAM_LIMIT: Final = PREFIX + "team-limit"
TEAM_WEIGHT: Final = PREFIX + "team-weight"
TEAM_ANNOTATIONS: Final = (TEAM_GUARANTEE, TEAM_LIMIT, TEAM_WEIGHT)
FALLBACK_NAMESPACE: Final = PREFIX + "mig-fallback"  # namespace label; value "enabled"
WEBHOOK_OPT_OUT: Final = "gpu-webhook"  # namespace label; value "disabled"
JOB_INDEX: Final = "batch.kubernetes.io/job-completion-index"
STATEFULSET_INDEX: Final = "apps.kubernetes.io/pod-index"
POD_TEMPLATE_HASH: Final = "pod-template-hash"
ROLLOUT_TEMPLATE_HASH: Final = "rollouts-pod-template-hash"  # of Argo Rollouts
#: Labels with the revision of a pod's template.
REVISIONS: Final = (POD_TEMPLATE_HASH, "controller-revision-hash", ROLLOUT_TEMPLATE_HASH)

# --- indexes and names that other controllers set on their pods (``model/pods/pod_index``) ----
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
JOBSET_PART: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_JOB: Final = "jobset.sigs.k8s.io/job-index"
JOBSET_JOBS: Final = "jobset.sigs.k8s.io/replicatedjob-replicas"
JOBSET_GLOBAL_JOB: Final = "jobset.sigs.k8s.io/job-global-index"
JOBSET_GLOBAL_JOBS: Final = "jobset.sigs.k8s.io/global-replicas"
JOBSET_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"  # annotation
JOBSET_BY_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"  # annotation
JOBSET_GROUP: Final = "jobset.sigs.k8s.io/group-name"
JOBSET_GROUP_JOB: Final = "jobset.sigs.k8s.io/job-group-index"
JOBSET_GROUP_JOBS: Final = "jobset.sigs.k8s.io/group-replicas"
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"  # annotation
LWS_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"  # annotation
TRAINING_REPLICA: Final = "training.kubeflow.org/replica-index"
TRAINING_JOB: Final = "training.kubeflow.org/job-name"
TRAINING_ROLE: Final = "training.kubeflow.org/job-role"
TRAINING_OPERATOR: Final = "training.kubeflow.org/operator-name"
RAY_CLUSTER: Final = "ray.io/cluster"
RAY_GROUP: Final = "ray.io/group"
RAY_HOST: Final = "ray.io/replica-host-index"
RAY_REPLICA: Final = "ray.io/worker-group-replica-index"
VOLCANO_TASK: Final = "volcano.sh/task-spec"  # annotation
KAI_GROUP: Final = "pod-group-name"  # annotation
KAI_PART: Final = "kai.scheduler/subgroup-name"
GROVE_GANG: Final = "grove.io/podgang"
GROVE_CLIQUE: Final = "grove.io/podclique"
GROVE_SET: Final = "app.kubernetes.io/part-of"
GROVE_POD: Final = "grove.io/podclique-pod-index"
GROVE_GROUP: Final = "grove.io/podcliquescalinggroup-replica-index"
GROVE_REPLICA: Final = "grove.io/podcliqueset-replica-index"
KUEUE: Final = "kueue.x-k8s.io/"  # the prefix of its labels and annotations
KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"  # annotation; a label before Kueue 0.18
KUEUE_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"  # annotation
#: Annotations of pods that Kueue admits before all pods of their group exist.
KUEUE_FAST: Final = "kueue.x-k8s.io/pod-group-fast-admission"  # value "true"
KUEUE_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"  # the controller, such as statefulset
KUEUE_POD: Final = "kueue.x-k8s.io/pod-group-pod-index"
KUEUE_TOPOLOGY_REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"  # annotation
KUEUE_TOPOLOGY_PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"  # annotation
KUEUE_WORKLOAD: Final = "kueue.x-k8s.io/workload"  # annotation
#: Annotations with the PodGroup of Volcano, the one that is looked at first first.
VOLCANO_GROUPS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
#: Labels that Kueue's webhook and job controllers set on pods that Kueue starts.
KUEUE_LABELS: Final = frozenset(("kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset"))

#: The stored annotations of a pod, besides those with our prefix.
POD_ANNOTATIONS: Final = (
    *(MAP, FALLBACK, ORIGINAL, DEFAULT_CONTAINER),
    *(JOBSET_EXCLUSIVE, JOBSET_BY_SELECTOR),
    *(LWS_SIZE, LWS_EXCLUSIVE, KUEUE_WORKLOAD),
    *(KUEUE_GROUP, KUEUE_TOTAL, KUEUE_FAST, KUEUE_PARENT),
    *(KUEUE_TOPOLOGY_REQUIRED, KUEUE_TOPOLOGY_PREFERRED),
    *(*VOLCANO_GROUPS, VOLCANO_TASK, KAI_GROUP),
)

# --- topology: labels that say where in the network a node is ---------------------------------
NVLINK_CLIQUE: Final = VENDOR + "gpu.clique"
#: Keys of one network each, far first; a cluster has the labels of at most one of them.
AWS_NETWORK: Final = tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3))
GKE_NETWORK: Final = (
    *("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
    "cloud.google.com/gce-topology-host",
)
OCI_NETWORK: Final = (
    *("oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/rdma.local_block_id"),
    "oci.oraclecloud.com/host.rack_id",
)
#: The keys in examples of Kueue.
EXAMPLE_NETWORK: Final = ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack")
#: Topograph's key of a tier of switches, with its number; 0 is nearest.
TOPOGRAPH_TIER: Final = "fabric.topograph.run/tier-"

# --- storage: annotations of claims and volumes, and node labels that volumes read ------------
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: In objects of clusters from before ``storageClassName``; it has precedence.
BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"  # on CSINodes
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"

# --- ResourceClaims -----------------------------------------------------------------------
#: On allocated claims: they outlive their last consumer (``resource.k8s.io/v1`` Finalizer).
CLAIM_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
#: On claims that a scheduler created for a pod's extended resources; value "true".
EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"

#: NVIDIA's DRA driver, and the attribute of its MIG partitions with their profile (1g.10gb+me).
DRA_DRIVER: Final = "gpu.nvidia.com"
PROFILE_ATTRIBUTE: Final = DRA_DRIVER + "/profile"

# --- resources ----------------------------------------------------------------------------
GPU: Final = VENDOR + "gpu"
MIG_PREFIX: Final = VENDOR + "mig-"
#: Before the name of a DeviceClass: the extended resource that every class has (KEP-5004).
DRA_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
REPLICAS: Final = ".replicas"  # suffix of a resource: the node label with the number of its shares
CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

#: The node labels by which cluster-autoscaler expects whole GPUs, of GKE, EKS, AKS and Alibaba.
CLOUD_GPU_LABELS: Final = (
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
    "aliyun.accelerator/nvidia_name",
)

CUDA_ENV: Final = "CUDA_VISIBLE_DEVICES"

#: Names of network devices, as whole words anywhere in the resource name.
_NETWORK_WORDS: Final = frozenset(
    ("bf", "cx", "dpu", "eth", "hca", "ib", "nic", "nics", "pf", "rail", "sf", "vf", "vfs")
)
_NETWORK: Final = re.compile(
    "asap2|bluefield|connectx|dummyresource|host[._-]?dev|infiniband|mellanox|mlnx|mlx|netdev|rdma"
    "|roce|sriov|switchdev"
)
#: Names of amounts of a GPU (HAMi: gpumem, gpumem-percentage, gpucores, priority).
_AMOUNTS: Final = frozenset(
    ("core", "cores", "gpucores", "gpumem", "mem", "memory", "percentage", "priority")
)
_LETTERS: Final = re.compile("[a-z]+")

# --- preemption ---------------------------------------------------------------------------
DISRUPTION_TARGET: Final = "DisruptionTarget"  # a condition of pods
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"  # its reason on a victim

# --- PodGroups of the API server ----------------------------------------------------------
API_GROUP_VERSIONS: Final = ("v1beta1", "v1alpha3")  # the newest first; a server has one or none
GROUP_SCHEDULED: Final = "PodGroupInitiallyScheduled"  # a condition


def is_protected(key: str) -> bool:
    """Whether an annotation key may be written only by a Binding or by the webhook."""
    return (
        key in BINDING_KEYS or key in ADMISSION_KEYS or key.startswith(CUDA_VISIBLE_DEVICES + ".")
    )


def is_read_by_filters(label: str) -> bool:
    """Whether filters read a node's label for every pod."""
    return label in FILTER_LABELS or (label.startswith(VENDOR) and label.endswith(REPLICAS))


def is_extended_resource(resource: str) -> bool:
    """Whether a device plugin or DRA serves a resource (kube-scheduler: IsDRAExtendedResourceName).

    >>> is_extended_resource("nvidia.com/gpu"), is_extended_resource("cpu")
    (True, False)
    >>> is_extended_resource("deviceclass.resource.kubernetes.io/gpu.nvidia.com")
    True
    """
    is_native = "kubernetes.io/" in resource and not resource.startswith(DRA_PREFIX)
    return "/" in resource and not is_native


@lru_cache(maxsize=4096)
def is_gpu_device(resource: str) -> bool:
    """Whether a device plugin with this resource allocates NVIDIA GPUs, or parts of them.

    NVIDIA's device plugin advertises ``nvidia.com/gpu`` and ``nvidia.com/mig-*``, with the suffix
    ``.shared`` if time-slicing or MPS renames, and its ``rename:`` may give any name below
    ``nvidia.com/``. KubeVirt's plugin advertises names of boards (``nvidia.com/GA102GL_A10``). So
    every such name is a GPU unless its words show something else: a network device of NVIDIA's
    network operator (``nvidia.com/hostdev``, ``nvidia.com/sriov-rdma-vf``,
    ``nvidia.com/bf3_p0_sf``), or an amount instead of a device (``nvidia.com/gpumem``).

    A network device with an unknown name counts as a GPU. The cost is that a map has no index on
    such a node, and an event reports it. The opposite error would assign a GPU to two pods.
    """
    return resource.startswith(VENDOR) and _names_gpu(resource)


def _names_gpu(resource: str) -> bool:
    name = resource.removeprefix(VENDOR).lower()
    words = frozenset(_LETTERS.findall(name))
    return bool(name) and not (words & (_NETWORK_WORDS | _AMOUNTS) or _NETWORK.search(name))


def is_mig(resource: str) -> bool:
    """Whether a resource name is a MIG profile, such as ``nvidia.com/mig-1g.10gb``."""
    return resource.startswith(MIG_PREFIX)


@lru_cache(maxsize=4096)
def mig_profile(resource: str) -> str:
    """``nvidia.com/mig-2g.20gb`` -> ``2g.20gb``; other GPUs lose only the vendor.

    >>> mig_profile("nvidia.com/mig-2g.20gb"), mig_profile("nvidia.com/gpu")
    ('2g.20gb', 'gpu')
    >>> mig_profile("nvidia.com/gpu.shared")
    'gpu.shared'
    """
    return resource.removeprefix(MIG_PREFIX).removeprefix(VENDOR)


def mig_resource(profile: str) -> str:
    """The inverse of :func:`mig_profile`."""
    is_slice = profile.lstrip("0123456789").startswith(("c.", "g.")) and profile[0].isdigit()
    return (MIG_PREFIX if is_slice else VENDOR) + profile
