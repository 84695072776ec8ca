"""Every limit on input: its unit, its source, what happens beyond it, and why it is so large."""

from __future__ import annotations

from typing import Final, NamedTuple

from scheduler.model import limits


class Limit(NamedTuple):
    """One limit; ``beyond`` describes the reaction to a larger value."""

    name: str
    unit: str
    source: str
    beyond: str
    why: str

    @property
    def most(self) -> int:
        """The largest valid value."""
        value: int = getattr(limits, self.name)
        return value


_WAITS: Final = "the pod is pending with the code `UNREADABLE`; the message names the resource"
_MAP_WAITS: Final = "the webhook rejects the pod; else it is pending with the code `MAP_INVALID`"
_CLOSED: Final = "the node's GPUs are not assigned (`NODE_UNREADABLE`); the node gets an event"
_NO_CLAIM: Final = "the claim is not allocated; pods that use it are pending and name the problem"
_NO_POOL: Final = "no device of the slice's pool is allocated"
_NO_RECORD: Final = "the record is ignored: the pod is not migrated because of it"

TABLE: Final = (
    Limit(
        "QUANTITY_LENGTH_MAX", "characters",
        "a quantity: requests, limits, overhead, allocatable, quotas",
        "the pod is pending with the code `UNREADABLE`; if it has a node, that node is not used",
        "the API server writes a quantity in about thirty characters",
    ),
    Limit(
        "POD_DEVICES_MAX", "devices of one resource",
        "a pod's request for a GPU resource; the devices in its"
        " `allocatedResourcesStatus`, which is ignored beyond that", _WAITS,
        "the largest nodes have 16 GPUs, which are 112 slices",
    ),
    Limit(
        "MAP_LENGTH_MAX", "characters",
        "`gpu-scheduling-map`", _MAP_WAITS, "the API server rejects longer annotations",
    ),
    Limit(
        "MAP_INDEX_MAX", "",
        "an index: of a map's line, a pod's name or label, `gpu-scheduler.io/pod-index`",
        _MAP_WAITS, "Kubernetes counts replicas in 32 bits",
    ),
    Limit(
        "MAP_DEVICE_MAX", "", "a device of a map", _MAP_WAITS,
        "a node with an unknown number of GPUs accepts any index",
    ),
    Limit(
        "MAP_LINE_DEVICES_MAX", "devices", "one line of a map", _MAP_WAITS,
        "the maximum of one node",
    ),
    Limit(
        "GANG_MEMBERS_MAX", "pods",
        "the minimum of a group: `gpu-scheduler.io/group-min`, `minMember`, `minCount`,"
        " `kueue.x-k8s.io/pod-group-total-count`, the pods of an owner",
        "the pod is pending with the code `UNREADABLE`; another source's minimum is not read",
        "the members of a group are planned in one go",
    ),
    Limit(
        "GANGS_REMEMBERED_MAX", "owners",
        "owners of the pods of groups that ran",
        "the oldest one is forgotten: a replaced pod without other members waits for its group",
        "they are needed while pods of the owner are replaced",
    ),
    Limit(
        "TEAMS_MAX", "teams", "teams of the ConfigMap, or Namespaces with a quota",
        "the ConfigMap is refused, and the former teams stay; more Namespaces have no quota",
        "the order of the teams is computed after each placement",
    ),
    Limit(
        "TEAM_AMOUNT_MAX", "", "slices or gigabytes of a guarantee or limit",
        "the ConfigMap is refused, and the former teams stay", "more than any cluster has",
    ),
    Limit(
        "INJECTED_BYTES_MAX", "bytes",
        "`CUDA_VISIBLE_DEVICES` of all containers of a pod together",
        "the webhook rejects the pod with a message", "the API server stores objects of 1.5 MiB",
    ),
    Limit(
        "LADDER_LENGTH_MAX", "characters",
        "`gpu-scheduler.io/mig-fallback`", "the webhook rejects the pod with a message",
        "eight tiers, each with labels",
    ),
    Limit(
        "LADDER_TIERS_MAX", "tiers", "`gpu-scheduler.io/mig-fallback`",
        "the webhook rejects the pod with a message",
        "every tier is one more decision within an admission",
    ),
    Limit(
        "MEMORY_LENGTH_MAX", "characters",
        "`gpu-scheduler.io/gpu-memory`, `gpu-scheduler.io/gpu-memory-given`",
        "the webhook rejects the pod with a message", "one amount for each container",
    ),
    Limit(
        "RECORD_LENGTH_MAX", "characters",
        "`adapter.gpu.turbonomic.ibm.com/original`", _NO_RECORD,
        "about a hundred characters per container",
    ),
    Limit(
        "TIER_NODES_LENGTH_MAX", "characters",
        "`gpu-scheduler.io/tier-nodes`", _NO_RECORD, "the labels of one tier",
    ),
    Limit(
        "ATTEMPT_MAX", "", "the attempt in the name of a PodMigration", _NO_RECORD,
        "migrations of a workload are suspended after three failures",
    ),
    Limit(
        "TICKET_LENGTH_MAX", "characters", "`gpu-scheduler.io/migration`",
        _NO_RECORD, "the scheduler's names have about twenty",
    ),
    Limit(
        "DEVICES_LENGTH_MAX", "characters", "`gpu-scheduler.io/devices`",
        "the pod has devices with unknown indexes", "256 indexes and as many instances",
    ),
    Limit(
        "DEVICE_ID_LENGTH_MAX", "characters",
        "a name or an id in a pod's `allocatedResourcesStatus`", "the field is ignored",
        "a driver, a pool and a device have at most about 400",
    ),
    Limit(
        "DATA_NAMES_MAX", "names", "annotation `gpu-scheduler.io/data`",
        "further names are ignored", "a pod reads a few data sets",
    ),
    Limit(
        "LABELS_OF_A_POD_MAX", "labels",
        "the node labels that one pod adds to the index",
        "its nodes are found by a scan within its own decision", "a selector has a few labels",
    ),
    Limit(
        "LABELS_MAX", "labels", "the node labels of the index",
        "further labels are scanned until others are no longer used",
        "each label increases the number of node classes",
    ),
    Limit(
        "DECISION_STEPS_MAX", "steps",
        "one decision or admission; setting `decisionStepsMax`",
        "the pod is pending with the code `TOO_COMPLEX`; an admission leaves the request unchanged",
        "10,000 nodes are checked twice, with ten requirements each",
    ),
    Limit(
        "RESERVED_PER_NAMESPACE_MAX", "devices",
        "reservations of one namespace whose pods do not exist yet",
        "an admission waits within its timeout, then leaves the request unchanged",
        "any client can post a review",
    ),
    Limit(
        "RESERVED_MAX", "devices",
        "reservations of all namespaces whose pods do not exist yet",
        "an admission waits within its timeout, then leaves the request unchanged",
        "any client can post a review",
    ),
    Limit(
        "USER_PRIORITY_MAX", "", "the priority in a review",
        "it counts as the lowest priority, except for the two system values",
        "the highest value of a PriorityClass that users create",
    ),
    Limit(
        "POD_CLAIMS_MAX", "claims",
        "`spec.resourceClaims` of a pod, `status.resourceClaimStatuses`",
        "the pod is pending with the code `UNREADABLE`", "a claim for each device",
    ),
    Limit(
        "CLAIM_ITEMS_MAX", "entries",
        "each list of a ResourceClaim or DeviceClass: requests, selectors, tolerations,"
        " constraints, configuration, results; each map of capacities",
        _NO_CLAIM, "the API server allows 32, and 64 of an allocation's configuration",
    ),
    Limit(
        "POD_CLAIM_DEVICES_MAX", "devices",
        "the requests of all unallocated ResourceClaims of a pod, and the devices for them",
        "the node is rejected with the code `DEVICE_SEARCH_LIMIT`",
        "a node has tens of devices; one claim can have 32",
    ),
    Limit(
        "CLAIM_CONSUMERS_MAX", "entries",
        "`status.reservedFor` and `status.devices` of a ResourceClaim",
        _NO_CLAIM, "the API server allows 256 consumers",
    ),
    Limit(
        "SLICE_DEVICES_MAX", "devices", "a ResourceSlice",
        _NO_POOL, "the API server allows 128",
    ),
    Limit(
        "SLICE_COUNTER_SETS_MAX", "counter sets", "a ResourceSlice",
        _NO_POOL, "the API server allows 8",
    ),
    Limit(
        "NODE_DEVICES_MAX", "devices",
        "the pools of ResourceSlices of one node, in the order of their names",
        "no device of the pool that exceeds it is allocated on the node",
        "the largest machine has 16 GPUs, and an IMEX domain 2,048 channels",
    ),
    Limit(
        "POOL_DEVICES_MAX", "devices",
        "a pool of ResourceSlices, with the devices of all its nodes",
        _NO_POOL, "2,048 machines with 8 GPUs; drivers have one pool for each node",
    ),
    Limit(
        "DEVICE_ITEMS_MAX", "entries",
        "each list or map of a device: attributes and their values, capacities, counters, taints,"
        " conditions; the counters of a counter set",
        _NO_POOL, "the API server allows 48 values of attributes and 32 of the others",
    ),
    Limit(
        "DEVICE_CONFIG_LENGTH_MAX", "bytes",
        "`opaque.parameters` of a ResourceClaim or DeviceClass", _NO_CLAIM,
        "the API server allows 10 KiB; an allocation repeats them",
    ),
    Limit(
        "NODE_GPUS_MAX", "GPUs",
        "a node whose GPUs have indexes: allocatable `nvidia.com/gpu`, label"
        " `nvidia.com/gpu.count`, annotation `gpu-scheduler.io/unusable-devices`",
        _CLOSED, "the maximum of the fake operator; no machine has more",
    ),
    Limit(
        "NODE_IMAGES_MAX", "image names", "`status.images` of a node",
        "further names are ignored", "the kubelet reports 50 images by default",
    ),
    Limit(
        "GPU_IDS_LENGTH_MAX", "characters",
        "annotation `gpu-scheduler.io/gpu-ids`, with one id per GPU",
        "it is ignored", "256 ids of 40 characters",
    ),
    Limit(
        "MIG_GPUS_MAX", "GPUs",
        "a node with MIG instances: label `nvidia.com/gpu.count`, annotation `run.ai/mig.config`",
        "the label is ignored; an invalid document gives an event on the node",
        "four times the largest machine",
    ),
    Limit(
        "GPU_MEMORY_MIB_MAX", "MiB",
        "label `nvidia.com/gpu.memory`, `gpu-scheduler.io/tier-nodes`",
        "it is ignored", "a thousand times the largest GPU",
    ),
    Limit(
        "REPLICAS_MAX", "", "label `nvidia.com/gpu.replicas`",
        "it is ignored", "time-slicing shares a GPU among some tens of pods",
    ),
    Limit(
        "MIG_CONFIG_LENGTH_MAX", "characters",
        "annotation `run.ai/mig.config`", "the node gets an event; instances are only counted",
        "a document for all GPU models has some thousand",
    ),
    Limit(
        "MIG_CONFIG_ENTRIES_MAX", "entries",
        "annotation `run.ai/mig.config`", "the node gets an event; instances are only counted",
        "one for each GPU",
    ),
    Limit(
        "MIG_CONFIG_INSTANCES_MAX", "instances of one GPU",
        "annotation `run.ai/mig.config`", "the node gets an event; instances are only counted",
        "a GPU holds seven",
    ),
    Limit(
        "WATCH_LINE_BYTES_MAX", "bytes", "one line of a watch",
        "the connection counts as broken: the kind is listed again after a backoff",
        "the API server stores objects of 1.5 MiB",
    ),
    Limit(
        "RETRY_AFTER_S_MAX", "s", "header `Retry-After` of the API server",
        "the client waits for this time", "a longer time is not a reaction to overload",
    ),
    Limit(
        "DECISIONS_MAX", "decisions", "`/decisions?limit=`",
        "400 with a message", "a response of some megabytes",
    ),
    Limit(
        "DECISIONS_OF_A_POD_MAX", "decisions",
        "`/decisions/NAMESPACE/POD?limit=`", "400 with a message", "each one has a line per node",
    ),
    Limit(
        "DECISIONS_OF_A_NAMESPACE_MAX", "pods",
        "`kubectl get decisions`", "the other pods are counted in `remainingItemCount`",
        "with their messages they fit into one answer of the scheduler",
    ),
    Limit(
        "DECISIONS_QUERY_LENGTH_MAX", "characters",
        "the query of a request to `decisions.gpu-scheduler.io`", "400 with a message",
        "kubectl sends a limit",
    ),
    Limit(
        "SNAPSHOT_WAIT_S_MAX", "s", "`/snapshot?wait=`",
        "400 with a message", "a pod is tried again within five minutes",
    ),
    Limit(
        "QUESTIONS_WAITING_MAX", "requests",
        "`/decisions`, `/capacity` and `kubectl get decisions` that wait for the answer to another",
        "503 with a message and `Retry-After`; `gpuctl` asks again",
        "one question at a time shares the process with the decisions",
    ),
    Limit(
        "DASHBOARD_LISTENERS_MAX", "pages",
        "open pages of the dashboard, each of which gets events",
        "503 with a message; the page asks at an interval", "each of them gets every change",
    ),
    Limit(
        "SELECTOR_LENGTH_MAX", "characters",
        "a CEL selector of a ResourceClaim or DeviceClass",
        "the selector is rejected as one that does not compile",
        "the API server rejects longer ones",
    ),
    Limit(
        "SELECTORS_MAX", "selectors", "compiled selectors that are kept",
        "the selector that was used least recently is compiled again when it is used",
        "a cluster has some tens of DeviceClasses, and claims from templates repeat selectors",
    ),
    Limit(
        "SELECTOR_RESULTS_MAX", "results",
        "results of selectors that are kept for one device",
        "all results of the device are computed again when they are needed",
        "a claim has one or two selectors, and its class as many",
    ),
    Limit(
        "SELECTOR_FACTS_MAX", "results",
        "results of a selector that are kept for devices that are equal in what it reads",
        "all results of the selector are computed again when they are needed",
        "the GPUs and partitions of a cluster have tens of products and profiles",
    ),
    Limit(
        "REPLICAS_OF_A_FILE_MAX", "pods",
        "replicas, parallelism and completions in a file of `gpuctl simulate`",
        "one line that names the file and the field", "Kubernetes is tested with 150,000 pods",
    ),
    Limit(
        "DEPTH_OF_A_FILE_MAX", "levels",
        "a document in a file of `gpuctl simulate`",
        "one line that names the file", "an object of the API has about fifteen",
    ),
    Limit(
        "DIGITS_OF_A_FILE_MAX", "characters",
        "a number in a file of `gpuctl simulate`",
        "one line that names the file", "Python reads no more than 4,300 digits",
    ),
)  # fmt: skip
