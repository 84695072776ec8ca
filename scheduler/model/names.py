"""Every name that other programs see: annotations, labels, resources.

The seed systems' names are kept byte for byte; ours carry one prefix,
``gpu-scheduler.io/``. Nothing else in the product spells such a name.
"""

from __future__ import annotations

from typing import Final

SCHEDULER_NAME: Final = "gpu-scheduler"
PREFIX: Final = "gpu-scheduler.io/"

# --- what users write -------------------------------------------------------------------
MAP: Final = "gpu-scheduling-map"
CUDA_MODE: Final = PREFIX + "cuda-mode"
MIG_FALLBACK: Final = PREFIX + "mig-fallback"
MEMORY_FLOOR: Final = PREFIX + "memory-floor"
WANTED_MEMORY: Final = PREFIX + "gpu-memory"
RESTORE: Final = PREFIX + "restore"
PREFER: Final = PREFIX + "prefer"

# --- what the Binding writes (protected: nobody else may) ---------------------------------
POD_INDEX: Final = PREFIX + "pod-index"
DEVICES: Final = PREFIX + "devices"
CUDA_VISIBLE_DEVICES: Final = PREFIX + "cuda-visible-devices"
DECISION: Final = PREFIX + "decision"
EPOCH: Final = PREFIX + "epoch"
# --- what the webhook writes (protected) --------------------------------------------------
RESERVATION: Final = PREFIX + "reservation"
MOVE: Final = PREFIX + "move"
# --- what the webhook leaves as a record (anybody may write it; it says what a pod may lose) ---
TIER_NODES: Final = PREFIX + "tier-nodes"
MEMORY_GIVEN: Final = PREFIX + "gpu-memory-given"

# --- on the Lease -------------------------------------------------------------------------
LEADER_ADDRESS: Final = PREFIX + "leader-address"

#: Keys that only a Binding may write. A share for one container is ``<key>.<position>``.
BINDING_KEYS: Final = (POD_INDEX, DEVICES, CUDA_VISIBLE_DEVICES, DECISION, EPOCH)
#: Keys that only the webhook may write, at CREATE.
ADMISSION_KEYS: Final = (RESERVATION, MOVE)

# --- the seeds' annotations ---------------------------------------------------------------
FALLBACK: Final = "gpu-webhook.k8s.io/fallback"
ORIGINAL: Final = "adapter.gpu.turbonomic.ibm.com/original"
MIG_CONFIG: Final = "run.ai/mig.config"  # on nodes: a document that says how GPUs are cut

# --- labels -------------------------------------------------------------------------------
NODE_ALIASES: Final = ("gpu-node-name", "gpu-node")  # in the order in which they are asked
NUMBERED: Final = PREFIX + "devices"  # node label; value "numbered"
#: Node annotation: indexes of GPUs that failed, such as ``1,3``.
UNUSABLE_DEVICES: Final = PREFIX + "unusable-devices"
MIG_DYNAMIC: Final = PREFIX + "mig-dynamic"  # node label; value "true"
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
GPU_COUNT: Final = "nvidia.com/gpu.count"
GPU_MEMORY: Final = "nvidia.com/gpu.memory"  # MiB of one GPU
MIG_STRATEGY: Final = "nvidia.com/mig.strategy"  # node label; none, single or mixed
MIG_STATE: Final = "nvidia.com/mig.config.state"  # node label; how far the cutting is
MIG_WANTED: Final = "nvidia.com/mig.config"  # node label; the configuration to cut
MIG_MANAGER: Final = "nvidia.com/gpu.deploy.mig-manager"  # node label; "true" where one works
#: Labels of nodes that filters read by themselves, for every pod.
FILTER_LABELS: Final = (
    *(*NODE_ALIASES, NUMBERED, MIG_DYNAMIC),
    *(MIG_STATE, MIG_WANTED, MIG_MANAGER, GPU_PRODUCT, MIG_STRATEGY),
)
#: What is kept of a node's annotations.
NODE_ANNOTATIONS: Final = (MIG_CONFIG, UNUSABLE_DEVICES)
MAPS_ALLOWED: Final = PREFIX + "maps"  # namespace label; value "allowed"
FALLBACK_NAMESPACE: Final = PREFIX + "mig-fallback"  # namespace label; value "enabled"
WEBHOOK_OPT_OUT: Final = "gpu-webhook"  # namespace label; value "disabled"
JOB_INDEX: Final = "batch.kubernetes.io/job-completion-index"
STATEFULSET_INDEX: Final = "apps.kubernetes.io/pod-index"
POD_TEMPLATE_HASH: Final = "pod-template-hash"

# --- by which other controllers number and name their pods (``model/podindex``) ------------
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
JOBSET_PART: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_JOB: Final = "jobset.sigs.k8s.io/job-index"
JOBSET_JOBS: Final = "jobset.sigs.k8s.io/replicatedjob-replicas"
JOBSET_GLOBAL_JOB: Final = "jobset.sigs.k8s.io/job-global-index"
JOBSET_GLOBAL_JOBS: Final = "jobset.sigs.k8s.io/global-replicas"
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"  # annotation
TRAINING_REPLICA: Final = "training.kubeflow.org/replica-index"
RAY_HOST: Final = "ray.io/replica-host-index"
RAY_REPLICA: Final = "ray.io/worker-group-replica-index"
GROVE_SET: Final = "app.kubernetes.io/part-of"
GROVE_POD: Final = "grove.io/podclique-pod-index"
GROVE_GROUP: Final = "grove.io/podcliquescalinggroup-replica-index"
GROVE_REPLICA: Final = "grove.io/podcliqueset-replica-index"
KUEUE_POD: Final = "kueue.x-k8s.io/pod-group-pod-index"

#: What is kept of a pod's annotations, beside those with our prefix.
POD_ANNOTATIONS: Final = (MAP, FALLBACK, ORIGINAL, LWS_SIZE)

# --- resources ----------------------------------------------------------------------------
GPU: Final = "nvidia.com/gpu"
MIG_PREFIX: Final = "nvidia.com/mig-"
CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

CUDA_ENV: Final = "CUDA_VISIBLE_DEVICES"


def is_protected(key: str) -> bool:
    """Whether an annotation key may be written only by a Binding or by the webhook."""
    return (
        key in BINDING_KEYS or key in ADMISSION_KEYS or key.startswith(CUDA_VISIBLE_DEVICES + ".")
    )


def is_mig(resource: str) -> bool:
    """Whether a resource name is a MIG profile, such as ``nvidia.com/mig-1g.10gb``."""
    return resource.startswith(MIG_PREFIX)


def is_gpu_device(resource: str) -> bool:
    """Whether a resource is a whole NVIDIA GPU or a MIG instance, by its exact name."""
    return resource == GPU or is_mig(resource)


def mig_profile(resource: str) -> str:
    """``nvidia.com/mig-2g.20gb`` -> ``2g.20gb``; a whole GPU is called ``gpu``.

    >>> mig_profile("nvidia.com/mig-2g.20gb"), mig_profile("nvidia.com/gpu")
    ('2g.20gb', 'gpu')
    """
    return resource.removeprefix(MIG_PREFIX) if is_mig(resource) else "gpu"


def mig_resource(profile: str) -> str:
    """The inverse of :func:`mig_profile`."""
    return GPU if profile == "gpu" else MIG_PREFIX + profile
