"""What a person does about a rejection: which stage said no, and what to do next, per code.

The condition on a pod carries only the sentence, so codes can also be told from their words
again: whoever may read nothing but pods and events still learns what to do.

Must never: be read by a decision. These are words for people.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from scheduler.model.reason import NEVER, ReasonCode


class Remediation(msgspec.Struct, frozen=True):
    """``stage`` names who said no, in kube-scheduler's words where it has one."""

    stage: str
    next_step: str


_MAP: Final = "GPUMap"
_DEVICES: Final = "GPUDevices"

ADVICE: Final[dict[ReasonCode, Remediation]] = {
    ReasonCode.NODE_UNSCHEDULABLE: Remediation(
        "NodeUnschedulable", "end the maintenance: kubectl uncordon NODE"
    ),
    ReasonCode.TAINT: Remediation(
        "TaintToleration", "tolerate the taint in spec.tolerations, or take it off the node"
    ),
    ReasonCode.AFFINITY: Remediation(
        "NodeAffinity",
        "compare spec.nodeSelector and spec.affinity with: kubectl get nodes --show-labels",
    ),
    ReasonCode.PORTS: Remediation(
        "NodePorts", "drop hostPort, take another one, or end the pod that has it"
    ),
    ReasonCode.TOO_MANY_PODS: Remediation(
        "NodeResourcesFit", "end pods on the node, or add a node"
    ),
    ReasonCode.INSUFFICIENT: Remediation(
        "NodeResourcesFit",
        "ask for less or end pods that hold it; an nvidia.com/mig profile may also step down by"
        " a ladder (gpu-scheduler.io/mig-fallback); GPUs that a DRA driver serves are not allocated"
        " by gpu-scheduler yet",
    ),
    ReasonCode.NO_ROOM_TOGETHER: Remediation(
        "NodeResourcesFit", "ask for fewer instances in one pod, or spread them over several pods"
    ),
    ReasonCode.MIG_NOT_READY: Remediation(
        _DEVICES,
        "wait until mig-manager is done; where the state is failed read its log, and set the"
        " node's label nvidia.com/mig.config again",
    ),
    ReasonCode.GPUS_ARE_SLICES: Remediation(
        _DEVICES,
        "ask for one nvidia.com/gpu in each container, or send the pod to nodes with whole GPUs"
        " by their label nvidia.com/gpu.product",
    ),
    ReasonCode.GPU_MEMORY_TOO_SMALL: Remediation(
        _DEVICES,
        "ask for less in gpu-scheduler.io/gpu-memory, or add nodes with larger GPUs; a share of a"
        " time-sliced GPU counts with its part of the memory",
    ),
    ReasonCode.GPU_MEMORY_UNKNOWN: Remediation(
        _DEVICES,
        "run NVIDIA's GPU feature discovery there, or label the node by hand: kubectl label node"
        " NODE nvidia.com/gpu.memory=MIB",
    ),
    ReasonCode.GPU_RESTS: Remediation(
        "NodeHealth",
        "read what the node's operator says: kubectl -n gpu-scheduler-system get migcuts NODE -o"
        " yaml; it is asked again by itself",
    ),
    ReasonCode.NODE_COUNTS_DEVICES: Remediation(
        _DEVICES,
        "keep mapped pods and pods that request nvidia.com/gpu on different nodes, or use a"
        " device plugin that honours numbers (node label gpu-scheduler.io/devices=numbered)",
    ),
    ReasonCode.DEVICE_HELD: Remediation(
        _MAP, "name other devices in the map, or end the pod that holds them"
    ),
    ReasonCode.DEVICE_NOT_FOUND: Remediation(
        _MAP, "name only GPUs that the node has and that are not cut, counted from 0"
    ),
    ReasonCode.DEVICE_FAILED: Remediation(
        _MAP, "name another device in the map, or wait until the node's GPU is repaired"
    ),
    ReasonCode.DEVICES_UNKNOWN: Remediation(
        _DEVICES,
        "nothing, if it passes; else recreate the pods on the node whose annotation"
        " gpu-scheduler.io/devices is missing or unreadable; where pods with resource claims run,"
        " map to another node",
    ),
    ReasonCode.NODE_AVOIDED: Remediation(
        "NodeHealth",
        "look at why the node's kubelet rejects pods (kubectl get pods -A --field-selector"
        " status.phase=Failed); it is tried again by itself",
    ),
    ReasonCode.TOO_MANY_IN_ONE_CONTAINER: Remediation(
        _DEVICES,
        "ask for 1 in each container: the GPUs are shared there (time-slicing or MPS) and the"
        " plugin is set to failRequestsGreaterThanOne; or send the pod to nodes with whole GPUs",
    ),
    ReasonCode.NOT_IN_MAP: Remediation(
        _MAP, "nothing for this node: look at the one that the map names"
    ),
    ReasonCode.MAP_INVALID: Remediation(
        _MAP, "correct that line of gpu-scheduling-map and recreate the pod"
    ),
    ReasonCode.MAP_NOT_ALLOWED: Remediation(
        _MAP,
        "ask an administrator: kubectl label namespace NAMESPACE gpu-scheduler.io/maps=allowed",
    ),
    ReasonCode.MAP_NODE_UNKNOWN: Remediation(
        _MAP,
        "correct the name in the map, or give a node that name: kubectl label node NODE"
        " gpu-node-name=NAME",
    ),
    ReasonCode.MAP_NODE_AMBIGUOUS: Remediation(
        _MAP, "use the node's real name, or take the label gpu-node-name off all but one"
    ),
    ReasonCode.MAP_CHANGED: Remediation(
        _MAP, "recreate the pod; its environment is written at creation"
    ),
    ReasonCode.INDEX_UNKNOWN: Remediation(
        _MAP, "name a bare pod NAME-<number>, or let a StatefulSet or Indexed Job make it"
    ),
    ReasonCode.INDEX_NOT_IN_MAP: Remediation(
        _MAP, "add a line for the index, or run fewer replicas"
    ),
    ReasonCode.INDEX_HELD: Remediation(
        _MAP, "wait until the pod with that index is gone, or delete it"
    ),
    ReasonCode.INDEX_HELD_BY_OLDER_REVISION: Remediation(
        _MAP, "set maxSurge: 0 in the Deployment's rollingUpdate, so that old pods go first"
    ),
    ReasonCode.NO_LINE_LEFT: Remediation(
        _MAP,
        "put right what the sentence names of a line (uncordon or repair its node, end what holds"
        " its devices), or add a line to the map",
    ),
    ReasonCode.SHARES_MISMATCH: Remediation(
        _MAP, "let the containers' nvidia.com/gpu requests add up to the line's devices"
    ),
    ReasonCode.NO_VALUE_FOR_ENV: Remediation(
        _DEVICES,
        "give the pod a map or a request for nvidia.com/gpu, or take the entry that reads the"
        " annotation out of its environment",
    ),
    ReasonCode.NOT_MUTATED: Remediation(
        _MAP,
        "nothing for pods of ReplicaSets and StatefulSets, if the webhook is back; for others run"
        " the command in the reason",
    ),
    ReasonCode.UNSUPPORTED: Remediation(
        "Pod", "take the field out of the pod, or use another scheduler for it"
    ),
    ReasonCode.UNREADABLE: Remediation(
        "Pod", "correct what the sentence names in the pod's template; the bounds: docs/limits.md"
    ),
    ReasonCode.NODE_UNREADABLE: Remediation(
        "NodeHealth",
        "read the events of the node (kubectl describe node NODE) and correct what they name; a pod"
        " there whose requests cannot be read has an event of its own",
    ),
    ReasonCode.INTERNAL: Remediation(
        "Pod",
        "nothing, if it passes; else look for the id in the scheduler's log and report what stands"
        " there; the pod is tried again by itself, and at once when it is changed",
    ),
    ReasonCode.TOO_COMPLEX: Remediation(
        "Pod",
        "name fewer labels, values and tolerations, or fewer MIG instances in one pod; an"
        " administrator may raise decisionStepsMax in the configuration",
    ),
    ReasonCode.NO_NODES: Remediation("Pod", "add a node"),
}

#: How each code's sentence is told from all others; tried in this order.
_WORDS: Final[tuple[tuple[ReasonCode, re.Pattern[str]], ...]] = tuple(
    (code, re.compile(pattern))
    for code, pattern in (
        (ReasonCode.NODE_UNSCHEDULABLE, r"node\(s\) were unschedulable"),
        (ReasonCode.TAINT, r"node\(s\) had untolerated taint"),
        (ReasonCode.AFFINITY, r"node\(s\) didn't match Pod's node affinity/selector"),
        (ReasonCode.PORTS, r"node\(s\) didn't have free ports"),
        (ReasonCode.TOO_MANY_PODS, r"Too many pods"),
        (ReasonCode.INSUFFICIENT, r"Insufficient \S"),
        (ReasonCode.GPU_RESTS, r"node\(s\) where GPUs with room rest"),
        (ReasonCode.NO_ROOM_TOGETHER, r"node\(s\) where the pod's MIG instances fit one by one"),
        (ReasonCode.TOO_COMPLEX, r"TooComplex: "),
        (ReasonCode.NO_VALUE_FOR_ENV, r"node\(s\) where the kubelet picks GPUs for a container"),
        (ReasonCode.NO_VALUE_FOR_ENV, r"a container reads its devices from the annotation"),
        (ReasonCode.MIG_NOT_READY, r"node\(s\) had nvidia\.com/mig\.config\.state \S+"),
        (ReasonCode.MIG_NOT_READY, r"node\(s\) that wait for their MIG layout \S+"),
        (ReasonCode.GPU_MEMORY_TOO_SMALL, r"node\(s\) whose nvidia\.com/gpu\.memory is \d+ MiB"),
        (ReasonCode.GPU_MEMORY_TOO_SMALL, r"node\(s\) where \S+ is one of \d+ shares of a GPU"),
        (ReasonCode.GPU_MEMORY_UNKNOWN, r"node\(s\) without the label nvidia\.com/gpu\.memory"),
        (ReasonCode.GPUS_ARE_SLICES, r"node\(s\) where nvidia\.com/gpu counts slices"),
        (ReasonCode.NODE_COUNTS_DEVICES, r"node\(s\) where the kubelet picks GPUs run"),
        (ReasonCode.DEVICE_HELD, r"node\(s\) where GPU \d+ is held"),
        (ReasonCode.DEVICE_NOT_FOUND, r"node\(s\) (without GPU \d+|whose GPU \d+ is cut)"),
        (ReasonCode.DEVICE_FAILED, r"node\(s\) whose GPU \d+ failed"),
        (
            ReasonCode.DEVICES_UNKNOWN,
            r"node\(s\) (had GPUs held under unknown numbers|run pods with resource claims)",
        ),
        (ReasonCode.NODE_AVOIDED, r"node\(s\) were avoided"),
        (
            ReasonCode.TOO_MANY_IN_ONE_CONTAINER,
            r"node\(s\) whose device plugin refuses more than \d+",
        ),
        (ReasonCode.NOT_IN_MAP, r"node\(s\) not named by gpu-scheduling-map"),
        (ReasonCode.MAP_INVALID, r"gpu-scheduling-map line \d+: "),
        (ReasonCode.MAP_NOT_ALLOWED, r"namespace \S+ may not use gpu-scheduling-map"),
        (ReasonCode.MAP_NODE_UNKNOWN, r"no node is named \S+ or labelled"),
        (ReasonCode.MAP_NODE_AMBIGUOUS, r"\S+ of gpu-scheduling-map fits \d+ nodes"),
        (ReasonCode.MAP_CHANGED, r"MapChanged: "),
        (ReasonCode.INDEX_UNKNOWN, r"the pod's index for gpu-scheduling-map is unknown"),
        (ReasonCode.INDEX_NOT_IN_MAP, r"gpu-scheduling-map has no line for index"),
        (ReasonCode.INDEX_HELD, r"index \d+ is held by pod"),
        (
            ReasonCode.NO_LINE_LEFT,
            r"all \d+ indexes of gpu-scheduling-map are held by its siblings",
        ),
        (ReasonCode.NO_LINE_LEFT, r"no line of gpu-scheduling-map can be had"),
        (ReasonCode.INDEX_HELD_BY_OLDER_REVISION, r"IndexHeldByOlderRevision: "),
        (ReasonCode.SHARES_MISMATCH, r"the containers request \d+ GPUs and line"),
        (ReasonCode.NOT_MUTATED, r"NotMutated: "),
        (ReasonCode.UNREADABLE, r"unreadable: "),
        (ReasonCode.NODE_UNREADABLE, r"node\(s\) that cannot be read"),
        (ReasonCode.NODE_UNREADABLE, r"node\(s\) whose GPUs say what cannot be"),
        (ReasonCode.NODE_UNREADABLE, r"node\(s\) run a pod whose requests cannot be read"),
        (ReasonCode.INTERNAL, r"internal error [0-9a-f]+"),
        (ReasonCode.UNSUPPORTED, r"unsupported: "),
        (ReasonCode.NO_NODES, r"no nodes available to schedule pods"),
    )
)
_HEAD: Final = re.compile(r"0/(\d+) nodes are available: ")
#: What is added behind the nodes' reasons: by kube-scheduler for pods of its own, and by us.
_TAIL: Final = re.compile(rf"\. (?:preemption:|{NEVER}).*", re.DOTALL)
_COUNTED: Final = re.compile(r"(\d+) (.+)")


class Part(msgspec.Struct, frozen=True):
    """One part of a rejection's sentence; ``count`` is 0 where it is about the whole pod."""

    count: int
    text: str
    code: ReasonCode | None


def code_of(text: str) -> ReasonCode | None:
    """The code whose words these are; None for words of somebody else.

    >>> code_of("Insufficient nvidia.com/gpu (need 2; best node has 1 free)") is Code.INSUFFICIENT
    True
    """
    return next((code for code, words in _WORDS if words.match(text)), None)


def parts(message: str) -> tuple[Part, ...]:
    """A rejection's sentence taken apart again; the inverse of ``model.reason.sentence``."""
    head = _HEAD.match(message)
    if head is None:
        return (Part(0, message, code_of(message)),) if message else ()
    rest = _TAIL.sub("", message[head.end() :]).removesuffix(".")
    if code_of(rest) is not None:
        return (Part(0, rest, code_of(rest)),)
    found: list[Part] = []
    for piece in rest.split(", "):
        counted = _COUNTED.fullmatch(piece)
        count, text = (int(counted[1]), counted[2]) if counted else (0, piece)
        found.append(Part(count, text, code_of(text)))
    return tuple(found)
