"""The gang of pods of one owner, for pods that ask for it by annotation.

``owner``: all pods of the owner that start together. ``role``: the pods of one role start together,
for owners that create one role after the other. A role of one pod that comes first (the leader of a
LeaderWorkerSet, the head of a RayCluster, the launcher of an MPIJob) is then no gang.

No owner makes a gang without the annotation: many operators create the workers after the first pod
runs, and such a gang would never be complete.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.integer_text import whole
from scheduler.model.limits import GANG_MEMBERS_MAX

RAY_HEAD: Final = "headgroup"
_MPI_OPERATOR, _MPI_WORKER = "mpi-operator", "worker"


class OwnerKind(enum.Enum):
    """Owners whose pods can be gangs; the value is for messages."""

    LEADER_WORKER_SET = "LeaderWorkerSet"
    JOB_SET = "JobSet"
    RAY_CLUSTER = "RayCluster"
    MPI_JOB = "MPIJob"


class OwnerGroup(msgspec.Struct, frozen=True):
    """The gang ``name`` of a pod, and the pod's ``role`` in it.

    ``minimum`` is None where the owner's object has it. The name of the gang of one role is
    ``OWNER/ROLE``, which no owner can have; of the followers in one Job it is ``OWNER/ROLE/JOB``.
    """

    kind: OwnerKind
    name: str
    role: str = ""
    minimum: int | None = None


def owner_group(labels: Mapping[str, str], annotations: Mapping[str, str]) -> OwnerGroup | None:
    """The gang that the pod asks for; None for pods of other owners, and for those that come
    first.
    """
    asked = annotations.get(well_known.GROUP_FROM)
    if asked not in ("owner", "role"):
        return None
    for label, read in _READERS.items():
        if labels.get(label):
            return read(labels, annotations, asked == "role")
    return None


def owner_problem(annotations: Mapping[str, str]) -> str:
    """What is wrong with the annotation; else empty."""
    asked = annotations.get(well_known.GROUP_FROM)
    if asked is None or asked in ("owner", "role"):
        return ""
    return f"{well_known.GROUP_FROM}: {asked[:20]!r} is neither 'owner' nor 'role'"


def _of_leader_worker_set(
    labels: Mapping[str, str], annotations: Mapping[str, str], is_role: bool
) -> OwnerGroup | None:
    """With an exclusive topology the workers are created when the leader has a node."""
    size = whole(annotations.get(well_known.LWS_SIZE, ""), GANG_MEMBERS_MAX)
    group = labels.get(well_known.LWS_GROUP) or labels.get(well_known.LWS_KEY)
    if not size or not group:
        return None
    name, kind = f"{labels[well_known.LWS_NAME]}/{group}", OwnerKind.LEADER_WORKER_SET
    if not is_role and well_known.LWS_EXCLUSIVE not in annotations:
        return OwnerGroup(kind, name, minimum=size)
    if labels.get(well_known.LWS_WORKER) == "0" or size == 1:
        return None
    return OwnerGroup(kind, f"{name}/workers", minimum=size - 1)


def _of_job_set(
    labels: Mapping[str, str], annotations: Mapping[str, str], is_role: bool
) -> OwnerGroup | None:
    """With an exclusive topology the first pod of each Job gets a node before JobSet admits the
    others of the Job.
    """
    role, owner = labels.get(well_known.JOBSET_PART, ""), labels[well_known.JOBSET_NAME]
    is_exclusive = well_known.JOBSET_EXCLUSIVE in annotations
    if not is_exclusive or well_known.JOBSET_BY_SELECTOR in annotations:
        return _in_object(OwnerKind.JOB_SET, owner, role, is_role)
    job = labels.get(well_known.JOBSET_JOB)
    if not role or not job or labels.get(well_known.JOB_INDEX) == "0":
        return None
    return OwnerGroup(OwnerKind.JOB_SET, f"{owner}/{role}/{job}")


def _of_ray_cluster(
    labels: Mapping[str, str], _annotations: Mapping[str, str], is_role: bool
) -> OwnerGroup | None:
    role = labels.get(well_known.RAY_GROUP, "")
    if is_role and role == RAY_HEAD:
        return None
    return _in_object(OwnerKind.RAY_CLUSTER, labels[well_known.RAY_CLUSTER], role, is_role)


def _of_mpi_job(
    labels: Mapping[str, str], _annotations: Mapping[str, str], _is_role: bool
) -> OwnerGroup | None:
    """The launcher may be created when all workers run, so it is never a member."""
    is_worker = labels.get(well_known.TRAINING_ROLE) == _MPI_WORKER
    if labels.get(well_known.TRAINING_OPERATOR) != _MPI_OPERATOR or not is_worker:
        return None
    return OwnerGroup(OwnerKind.MPI_JOB, labels[well_known.TRAINING_JOB])


def _in_object(kind: OwnerKind, owner: str, role: str, is_role: bool) -> OwnerGroup | None:
    if not role:
        return None
    return OwnerGroup(kind, f"{owner}/{role}") if is_role else OwnerGroup(kind, owner, role)


_READERS: Final[
    Mapping[str, Callable[[Mapping[str, str], Mapping[str, str], bool], OwnerGroup | None]]
] = {
    well_known.LWS_NAME: _of_leader_worker_set,
    well_known.JOBSET_NAME: _of_job_set,
    well_known.RAY_CLUSTER: _of_ray_cluster,
    well_known.TRAINING_JOB: _of_mpi_job,
}
