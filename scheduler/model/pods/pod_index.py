"""A pod's index in its map, from its controller.

``SOURCES`` is the table of controllers and the labels with their indexes. An index is read only
from pods whose controlling owner is of that API group and kind; on any other pod the same label was
written by the pod's author. A pod without a source is interchangeable with its siblings, and the
scheduler chooses its index at the Binding.

The webhook and the scheduler read indexes through this module, so the environment chosen at
admission equals the devices chosen at the Binding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.pods.index_readers import (
    Index,
    IndexRule,
    Marks,
    Read,
    in_label,
    in_name,
    of_leader_worker_set,
    shared_by_jobs,
    with_spare_lines,
    within_first,
)
from scheduler.model.pods.pod_parts import Owner

__all__ = ["SOURCES", "IndexRule", "Indexed", "Source", "index_of", "indexed"]


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


class Indexed(msgspec.Struct, frozen=True):
    """A pod's index, and the row of the table that gives it; None if no row does."""

    index: Index
    source: Source | None


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
    return indexed(owner, Marks(name, labels, annotations, lines)).index


def indexed(owner: Owner | None, marks: Marks) -> Indexed:
    """The index of the first row that has one; else the rule of the pod's owner."""
    word = "" if owner is None else owner.word
    for source in _BY_OWNER.get(word, ()):
        index = source.read(marks)
        if index is not None:
            return Indexed(index, source)
    return Indexed(IndexRule.UNKNOWN if owner is None else IndexRule.ASSIGNED, None)


_TRAINING: Final = tuple(
    f"{kind}.kubeflow.org"
    for kind in ("PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "PaddleJob", "MXJob", "JAXJob")
)

_GROUP: Final = (well_known.JOBSET_GROUP_JOB, well_known.JOBSET_GROUP_JOBS)
_PART: Final = (well_known.JOBSET_JOB, well_known.JOBSET_JOBS)
_SET: Final = (well_known.JOBSET_GLOBAL_JOB, well_known.JOBSET_GLOBAL_JOBS)
_JOBSET_ORIGIN: Final = "kubernetes-sigs/jobset, `pkg/controllers/jobset_controller.go`"

#: Sources of indexes; of one owner's rows the first whose fields the pod has counts.
SOURCES: Final = (
    Source(
        owners=("Job",),
        labels=(well_known.JOBSET_GROUP, *_GROUP, well_known.JOB_INDEX),
        meaning="JobSet: pod of the Jobs of a group with a `groupName`, which share out all lines",
        origin=_JOBSET_ORIGIN,
        read=shared_by_jobs(*_GROUP),
    ),
    Source(
        owners=("Job",),
        labels=(*_PART, well_known.JOB_INDEX),
        meaning="JobSet: pod of the Jobs of a replicated job, which share out all lines",
        origin=_JOBSET_ORIGIN,
        read=shared_by_jobs(*_PART),
    ),
    Source(
        owners=("Job",),
        labels=(*_SET, well_known.JOB_INDEX),
        meaning="JobSet: pod of all Jobs, which share out all lines",
        origin=_JOBSET_ORIGIN,
        read=shared_by_jobs(*_SET),
    ),
    Source(
        owners=("Job",),
        labels=(well_known.JOBSET_GROUP, *_GROUP, *_PART, *_SET, well_known.JOB_INDEX),
        meaning="JobSet: pod of the Jobs of the first of these counts; some lines are left over",
        origin=_JOBSET_ORIGIN,
        read=with_spare_lines(_GROUP, _PART, _SET),
    ),
    Source(
        owners=("Job",),
        labels=(well_known.JOB_INDEX,),
        meaning="completion index of an Indexed Job",
        origin="kubernetes/kubernetes, `pkg/controller/job/indexed_job_utils.go`",
        read=in_label(well_known.JOB_INDEX),
    ),
    Source(
        owners=("StatefulSet",),
        labels=(well_known.LWS_WORKER, well_known.LWS_GROUP),
        also=f"annotation `{well_known.LWS_SIZE}`",
        meaning="LeaderWorkerSet: group x size + worker (the leader is worker 0)",
        origin="kubernetes-sigs/lws, `pkg/webhooks/pod_webhook.go`",
        read=of_leader_worker_set,
    ),
    Source(
        owners=("StatefulSet",),
        labels=(well_known.STATEFULSET_INDEX,),
        meaning="ordinal of a StatefulSet",
        origin="kubernetes/kubernetes, `pkg/controller/statefulset/stateful_set_utils.go`",
        read=in_label(well_known.STATEFULSET_INDEX, may_be_odd=True),
    ),
    Source(
        owners=("StatefulSet",),
        also="name `...-N`",
        meaning="ordinal of a StatefulSet",
        origin="kubernetes/kubernetes, `pkg/controller/statefulset/stateful_set_utils.go`",
        read=in_name(),
    ),
    Source(
        owners=_TRAINING,
        labels=(well_known.TRAINING_REPLICA,),
        meaning="replica of one role; each role has a map of its own",
        origin="kubeflow/training-operator, `pkg/controller.v1`; kubeflow/mpi-operator, "
        "`pkg/controller/mpi_job_controller.go`",
        read=in_label(well_known.TRAINING_REPLICA),
    ),
    Source(
        owners=("RayCluster.ray.io",),
        labels=(well_known.RAY_HOST, well_known.RAY_REPLICA),
        meaning="host of a multi-host group's first replica; hosts of others take what is left",
        origin="ray-project/kuberay 1.5, `ray-operator/controllers/ray/common/pod.go`",
        read=within_first(well_known.RAY_HOST, well_known.RAY_REPLICA),
    ),
    Source(
        owners=("RayCluster.ray.io",),
        labels=(well_known.RAY_REPLICA,),
        meaning="replica of a worker group with one host per replica",
        origin="ray-project/kuberay 1.5, `ray-operator/controllers/ray/common/pod.go`",
        read=in_label(well_known.RAY_REPLICA),
    ),
    Source(
        owners=("PodClique.grove.io",),
        labels=(well_known.GROVE_POD, well_known.GROVE_GROUP, well_known.GROVE_REPLICA),
        meaning="pod of a clique of the first replica; pods of other replicas take what is left",
        origin="ai-dynamo/grove, `operator/api/common/labels.go`",
        read=within_first(well_known.GROVE_POD, well_known.GROVE_GROUP, well_known.GROVE_REPLICA),
    ),
    Source(
        owners=("Pod",),
        also="name `...-exec-N`",
        meaning="executor of a Spark driver pod; they count from 1",
        origin="apache/spark, `BasicExecutorFeatureStep.scala`",
        read=in_name("-exec"),
    ),
    Source(
        owners=("",),
        labels=(well_known.KUEUE_POD,),
        meaning="pod of a Kueue pod group without a controller",
        origin="kubernetes-sigs/kueue",
        read=in_label(well_known.KUEUE_POD),
    ),
    Source(
        owners=("",),
        also="name `...-N`",
        meaning="number of a pod without a controller",
        origin="this product",
        read=in_name(),
    ),
)
_BY_OWNER: Final = {
    owner: tuple(source for source in SOURCES if owner in source.owners)
    for owner in dict.fromkeys(owner for source in SOURCES for owner in source.owners)
}
