"""A pod's index in its map, from its controller.

``SOURCES`` is the table of controllers and the labels with their indexes. An index is read only
from pods whose controlling owner is of that API group and kind; on any other pod the same label was
written by the pod's author. A pod without a source is interchangeable with its siblings, and the
scheduler chooses its index at the Binding.

The webhook and the scheduler read indexes through this module, so the environment chosen at
admission equals the devices chosen at the Binding.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import canonical_number
from scheduler.model.limits import MAP_INDEX_MAX
from scheduler.model.pods.pod_parts import Owner


class IndexRule(enum.Enum):
    """The rule for a pod without an index of its own."""

    #: Its controller creates interchangeable pods: the scheduler chooses an index at the Binding.
    ASSIGNED = "assigned"
    #: Neither a controller nor the name gives an index: a mapped pod is pending with this reason.
    UNKNOWN = "unknown"


class Marks(msgspec.Struct, frozen=True):
    """The fields of a pod with its index, and the number of ``lines`` of its map (0: unknown)."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    lines: int


Index = int | IndexRule
Read = Callable[[Marks], Index | None]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table.

    ``owners`` are words (``Owner.word``), the empty one for a pod without a controller. ``labels``
    are the labels that are read, ``also`` other fields, and ``origin`` is the upstream source.
    ``read`` returns None if the pod does not have these fields.
    """

    owners: tuple[str, ...]
    labels: tuple[str, ...] = ()
    also: str = ""
    meaning: str
    origin: str
    read: Read


def index_of(
    *,
    name: str,
    owner: Owner | None,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    lines: int = 0,
) -> Index:
    """The pod's index in a map with this number of lines, the same at admission and at the Binding.

    A start ordinal needs no special case: pod ``w-5`` uses entry 5 for any start ordinal.
    """
    word = "" if owner is None else owner.word
    marks = Marks(name, labels, annotations, lines)
    for source in _BY_OWNER.get(word, ()):
        index = source.read(marks)
        if index is not None:
            return index
    return IndexRule.UNKNOWN if owner is None else IndexRule.ASSIGNED


def _label(key: str, *, may_be_odd: bool = False) -> Read:
    """The index in one label; an invalid text is no index unless another source follows."""

    def read(marks: Marks) -> Index | None:
        text = marks.labels.get(key)
        number = None if text is None else canonical_number(text)
        if number is None and (text is None or may_be_odd):
            return None
        return IndexRule.UNKNOWN if number is None else number

    return read


def _within(key: str, *groups: str) -> Read:
    """The index within a group, which is the pod's own only in the first group.

    The size of a group is not on the pod, so the pods of further groups get the remaining lines.
    """
    inner = _label(key)

    def read(marks: Marks) -> Index | None:
        index = inner(marks)
        if index is None or all(marks.labels.get(group, "0") == "0" for group in groups):
            return index
        return IndexRule.ASSIGNED

    return read


def _suffix(before: str = "") -> Read:
    """The number after the last dash of the pod's name; ``before`` must precede it."""

    def read(marks: Marks) -> Index | None:
        start, dash, digits = marks.name.rpartition("-")
        if not start.endswith(before):
            return None
        number = canonical_number(digits) if dash else None
        return IndexRule.UNKNOWN if number is None else number

    return read


def _of_group(marks: Marks) -> Index | None:
    """LeaderWorkerSet: group x size + worker, which is the pod's rank in the whole set."""
    if well_known.LWS_WORKER not in marks.labels:
        return None
    worker = canonical_number(marks.labels[well_known.LWS_WORKER])
    group = canonical_number(marks.labels.get(well_known.LWS_GROUP, "0"))
    size = canonical_number(marks.annotations.get(well_known.LWS_SIZE, ""))
    if worker is None or group is None:
        return IndexRule.UNKNOWN
    if group and not size:
        return IndexRule.ASSIGNED
    return _bounded(group * (size or 0) + worker)


def _of_job_set(marks: Marks) -> Index | None:
    """JobSet: the lines of the map are divided evenly among the Jobs, and a pod's index counts
    within its Job.

    The number of pods of one Job is not on a pod. Kueue derives it in the same way, from the number
    of all pods and of the Jobs (``PodSetTopologyRequest.subGroupCount``).
    """
    labels = marks.labels
    if well_known.JOBSET_JOB not in labels and well_known.JOBSET_GLOBAL_JOB not in labels:
        return None
    within = canonical_number(labels.get(well_known.JOB_INDEX, "0"))
    if within is None:
        return IndexRule.UNKNOWN
    counted = [
        (job, jobs)
        for key, count_key in _JOBS
        if (job := canonical_number(labels.get(key, ""))) is not None
        and (jobs := canonical_number(labels.get(count_key, "")))
    ]
    if counted and marks.lines:
        # The replicated job's own count has precedence over the set's; with spare lines, the own
        # one.
        even = next((one for one in counted if marks.lines % one[1] == 0), counted[0])
        return _in_share(even[0], within, marks, max(1, marks.lines // even[1]))
    job = canonical_number(
        labels.get(well_known.JOBSET_GLOBAL_JOB, labels.get(well_known.JOBSET_JOB, ""))
    )
    if job is None:
        return IndexRule.UNKNOWN
    return IndexRule.ASSIGNED if job and within else job + within


def _in_share(job: int, within: int, marks: Marks, share: int) -> Index:
    if share > 1 and well_known.JOB_INDEX not in marks.labels:
        return IndexRule.ASSIGNED  # the pods of a Job without indexes are interchangeable
    if within >= share:
        return _bounded(marks.lines + within)  # more pods than lines: not another Job's line
    return _bounded(job * share + within)


def _bounded(index: int) -> Index:
    return index if index <= MAP_INDEX_MAX else IndexRule.UNKNOWN


_JOBS: Final = (
    (well_known.JOBSET_JOB, well_known.JOBSET_JOBS),
    (well_known.JOBSET_GLOBAL_JOB, well_known.JOBSET_GLOBAL_JOBS),
)
_JOB_SET: Final = tuple(key for pair in _JOBS for key in pair)
_TRAINING: Final = tuple(
    f"{kind}.kubeflow.org"
    for kind in ("PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "PaddleJob", "MXJob", "JAXJob")
)

#: Sources of indexes; of one owner's rows the first whose fields the pod has counts.
SOURCES: Final = (
    Source(
        owners=("Job",),
        labels=(*_JOB_SET, well_known.JOB_INDEX),
        meaning="JobSet: the Jobs share the lines out evenly; the completion index counts within",
        origin="kubernetes-sigs/jobset, `pkg/controllers`; set on Jobs and pods",
        read=_of_job_set,
    ),
    Source(
        owners=("Job",),
        labels=(well_known.JOB_INDEX,),
        meaning="completion index of an Indexed Job",
        origin="kubernetes/kubernetes, `pkg/controller/job`",
        read=_label(well_known.JOB_INDEX),
    ),
    Source(
        owners=("StatefulSet",),
        labels=(well_known.LWS_WORKER, well_known.LWS_GROUP),
        also=f"annotation `{well_known.LWS_SIZE}`",
        meaning="LeaderWorkerSet: group x size + worker (the leader is worker 0)",
        origin="kubernetes-sigs/lws, `pkg/webhooks/pod_webhook.go`",
        read=_of_group,
    ),
    Source(
        owners=("StatefulSet",),
        labels=(well_known.STATEFULSET_INDEX,),
        meaning="ordinal of a StatefulSet",
        origin="kubernetes/kubernetes, `pkg/controller/statefulset`",
        read=_label(well_known.STATEFULSET_INDEX, may_be_odd=True),
    ),
    Source(
        owners=("StatefulSet",),
        also="name `...-N`",
        meaning="ordinal of a StatefulSet",
        origin="kubernetes/kubernetes, `pkg/controller/statefulset`",
        read=_suffix(),
    ),
    Source(
        owners=_TRAINING,
        labels=(well_known.TRAINING_REPLICA,),
        meaning="replica of one role; each role has a map of its own",
        origin="kubeflow/training-operator, `pkg/apis/kubeflow.org/v1`; kubeflow/mpi-operator",
        read=_label(well_known.TRAINING_REPLICA),
    ),
    Source(
        owners=("RayCluster.ray.io",),
        labels=(well_known.RAY_HOST, well_known.RAY_REPLICA),
        meaning="host of a multi-host group's first replica; hosts of others take what is left",
        origin="ray-project/kuberay 1.5, `ray-operator/controllers/ray/common/pod.go`",
        read=_within(well_known.RAY_HOST, well_known.RAY_REPLICA),
    ),
    Source(
        owners=("RayCluster.ray.io",),
        labels=(well_known.RAY_REPLICA,),
        meaning="replica of a worker group with one host per replica",
        origin="ray-project/kuberay 1.5, `ray-operator/controllers/ray/common/pod.go`",
        read=_label(well_known.RAY_REPLICA),
    ),
    Source(
        owners=("PodClique.grove.io",),
        labels=(well_known.GROVE_POD, well_known.GROVE_GROUP, well_known.GROVE_REPLICA),
        meaning="pod of a clique of the first replica; pods of other replicas take what is left",
        origin="ai-dynamo/grove, `operator/api/common`",
        read=_within(well_known.GROVE_POD, well_known.GROVE_GROUP, well_known.GROVE_REPLICA),
    ),
    Source(
        owners=("Pod",),
        also="name `...-exec-N`",
        meaning="executor of a Spark driver pod; they count from 1",
        origin="apache/spark, `resource-managers/kubernetes`",
        read=_suffix("-exec"),
    ),
    Source(
        owners=("",),
        labels=(well_known.KUEUE_POD,),
        meaning="pod of a Kueue pod group without a controller",
        origin="kubernetes-sigs/kueue",
        read=_label(well_known.KUEUE_POD),
    ),
    Source(
        owners=("",),
        also="name `...-N`",
        meaning="number of a pod without a controller",
        origin="this product",
        read=_suffix(),
    ),
)
_BY_OWNER: Final = {
    owner: tuple(source for source in SOURCES if owner in source.owners)
    for owner in dict.fromkeys(owner for source in SOURCES for owner in source.owners)
}
