"""How many pods of an owner start together, by role, as its object says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from scheduler.model.limits import GANG_MEMBERS_MAX
from scheduler.model.owners.owner_group import RAY_HEAD, OwnerKind
from scheduler.model.pods.gang import GangKey, PodGroup


class Minima(msgspec.Struct, frozen=True):
    """Pods by role: those that start together now, those of each role by itself, and the followers
    of the first pod in each Job of a role.
    """

    together: Mapping[str, int]
    each: Mapping[str, int]
    followers: Mapping[str, int] = {}


class _Camel(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Any part of an object."""


# --- JobSet ----------------------------------------------------------------------------------


class _JobSpec(_Camel, frozen=True):
    parallelism: int = 1
    completions: int | None = None


class _JobTemplate(_Camel, frozen=True):
    spec: _JobSpec = _JobSpec()


class _DependsOn(_Camel, frozen=True):
    name: str
    status: str = ""


class _ReplicatedJob(_Camel, frozen=True):
    name: str
    replicas: int = 1
    template: _JobTemplate = _JobTemplate()
    depends_on: tuple[_DependsOn, ...] | None = None

    @property
    def pods_of_job(self) -> int:
        """The pods of one Job that run at the same time."""
        spec = self.template.spec
        each = spec.parallelism
        if spec.completions is not None:
            each = min(each, spec.completions)
        return max(0, each)

    @property
    def pods(self) -> int:
        """The same of all Jobs."""
        return max(0, self.replicas) * self.pods_of_job


class _StartupPolicy(_Camel, frozen=True):
    startup_policy_order: str = ""


class _JobSetSpec(_Camel, frozen=True):
    replicated_jobs: tuple[_ReplicatedJob, ...] = ()
    startup_policy: _StartupPolicy | None = None


class _JobStatus(_Camel, frozen=True):
    name: str
    ready: int = 0
    succeeded: int = 0


class _JobSetStatus(_Camel, frozen=True):
    replicated_jobs_status: tuple[_JobStatus, ...] | None = None


class _JobSet(_Camel, frozen=True):
    spec: _JobSetSpec = _JobSetSpec()
    status: _JobSetStatus = _JobSetStatus()


def _of_job_set(content: bytes) -> Minima:
    """The replicated jobs that may exist now and have not ended start together; others later."""
    found = msgspec.json.decode(content, type=_JobSet)
    status = {one.name: one for one in found.status.replicated_jobs_status or ()}
    order = found.spec.startup_policy
    in_order = order is not None and order.startup_policy_order == "InOrder"
    together: dict[str, int] = {}
    may_start = True
    for job in found.spec.replicated_jobs:
        now = status.get(job.name, _JobStatus(name=job.name))
        is_met = may_start and all(_is_met(one, found, status) for one in job.depends_on or ())
        if is_met and now.succeeded < job.replicas:
            together[job.name] = job.pods
        may_start = may_start and (not in_order or now.ready + now.succeeded >= job.replicas)
    jobs = found.spec.replicated_jobs
    followers = {job.name: job.pods_of_job - 1 for job in jobs}
    return Minima(together, {job.name: job.pods for job in jobs}, followers)


def _is_met(wanted: _DependsOn, found: _JobSet, status: Mapping[str, _JobStatus]) -> bool:
    jobs = found.spec.replicated_jobs
    replicas = next((job.replicas for job in jobs if job.name == wanted.name), 0)
    now = status.get(wanted.name, _JobStatus(name=wanted.name))
    reached = now.succeeded if wanted.status == "Complete" else now.ready + now.succeeded
    return reached >= replicas


# --- RayCluster ------------------------------------------------------------------------------


class _WorkerGroup(_Camel, frozen=True):
    group_name: str
    replicas: int | None = None
    min_replicas: int | None = None
    num_of_hosts: int = 1
    suspend: bool | None = None


class _RaySpec(_Camel, frozen=True):
    enable_in_tree_autoscaling: bool | None = None
    worker_group_specs: tuple[_WorkerGroup, ...] | None = None


class _RayCluster(_Camel, frozen=True):
    spec: _RaySpec = _RaySpec()


def _of_ray_cluster(content: bytes) -> Minima:
    """The head, and the workers without which its autoscaler would not start."""
    spec = msgspec.json.decode(content, type=_RayCluster).spec
    minima = {RAY_HEAD: 1}
    for group in spec.worker_group_specs or ():
        least = group.min_replicas or 0
        wanted = least if group.replicas is None else max(least, group.replicas)
        replicas = least if spec.enable_in_tree_autoscaling else wanted
        minima[group.group_name] = 0 if group.suspend else replicas * group.num_of_hosts
    return Minima(minima, minima)


# --- MPIJob ----------------------------------------------------------------------------------


class _Replicas(_Camel, frozen=True):
    replicas: int = 1


class _ReplicaSpecs(msgspec.Struct, frozen=True, rename="pascal"):
    worker: _Replicas | None = None


class _MpiSpec(_Camel, frozen=True):
    mpi_replica_specs: _ReplicaSpecs = _ReplicaSpecs()


class _MpiJob(_Camel, frozen=True):
    spec: _MpiSpec = _MpiSpec()


def _of_mpi_job(content: bytes) -> Minima:
    """The workers, which have no role in their gang; the launcher is no member."""
    worker = msgspec.json.decode(content, type=_MpiJob).spec.mpi_replica_specs.worker
    minima = {"": 0 if worker is None else worker.replicas}
    return Minima(minima, minima)


_READERS: Final[Mapping[OwnerKind, Callable[[bytes], Minima]]] = {
    OwnerKind.JOB_SET: _of_job_set,
    OwnerKind.RAY_CLUSTER: _of_ray_cluster,
    OwnerKind.MPI_JOB: _of_mpi_job,
}


def gang_of_owner(key: GangKey, content: bytes) -> PodGroup | None:
    """The gang with this key, as the object of its owner defines it; None without such a role.

    A field of another type is an error of msgspec.
    """
    found = _READERS[OwnerKind(key.source)](content)
    role, _, job = key.name.partition("/")[2].partition("/")
    of_role = found.followers if job else found.each
    if role and role not in of_role:
        return None
    minima = {"": of_role[role]} if role else found.together
    roles = {role: count for role, count in minima.items() if count > 0}
    total = sum(roles.values())
    is_large = total > GANG_MEMBERS_MAX
    return PodGroup(
        *(key.namespace, key.name, None if is_large else total or None, key.source),
        roles={} if "" in roles or is_large else roles,
        problem=f"more than {GANG_MEMBERS_MAX} pods" if is_large else "",
    )
