"""How an index is read from the fields that a controller sets on its pods.

``pod_index.py`` has the table of the controllers. Each reader returns None if the pod does not have
its fields, so that the next row of the table counts.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import canonical_number
from scheduler.model.limits import MAP_INDEX_MAX

#: The group of replicated jobs without ``groupName``.
_DEFAULT_GROUP: Final = "default"


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


def in_label(key: str, *, may_be_odd: bool = False) -> Read:
    """The index in one label; an invalid text is no index unless another source follows."""

    def read(marks: Marks) -> Index | None:
        text = marks.labels.get(key)
        number = None if text is None else canonical_number(text)
        if number is None and (text is None or may_be_odd):
            return None
        return IndexRule.UNKNOWN if number is None else number

    return read


def within_first(key: str, *groups: str) -> Read:
    """The index within a group, which is the pod's own only in the first group.

    The size of a group is not on the pod, so the pods of further groups get the remaining lines.
    """
    inner = in_label(key)

    def read(marks: Marks) -> Index | None:
        index = inner(marks)
        if index is None or all(marks.labels.get(group, "0") == "0" for group in groups):
            return index
        return IndexRule.ASSIGNED

    return read


def in_name(before: str = "") -> Read:
    """The number after the last dash of the pod's name; ``before`` must precede it."""

    def read(marks: Marks) -> Index | None:
        start, dash, digits = marks.name.rpartition("-")
        if not start.endswith(before):
            return None
        number = canonical_number(digits) if dash else None
        return IndexRule.UNKNOWN if number is None else number

    return read


def of_leader_worker_set(marks: Marks) -> Index | None:
    """LeaderWorkerSet: group x size + worker, which is the pod's rank in the whole set.

    Its webhook, which may be called after ours, writes the leader's group and the worker's index
    from the ordinals, so the ordinals replace these labels where they are missing. The groups of a
    set with ``groupIdentity: Hash`` have no number: their pods are interchangeable.
    """
    labels = marks.labels
    if well_known.LWS_WORKER not in labels and well_known.LWS_GROUP not in labels:
        return None
    ordinal = labels.get(well_known.STATEFULSET_INDEX) or marks.name.rpartition("-")[2]
    worker = canonical_number(labels.get(well_known.LWS_WORKER, ordinal))
    if worker is None:
        return IndexRule.UNKNOWN
    group = canonical_number(labels.get(well_known.LWS_GROUP, "0" if worker else ordinal))
    size = canonical_number(marks.annotations.get(well_known.LWS_SIZE, ""))
    if group is None or (group and not size):
        return IndexRule.ASSIGNED
    return _bounded(group * (size or 0) + worker)


def shared_by_jobs(job_key: str, count_key: str) -> Read:
    """JobSet: number of the Job x pods of a Job + completion index.

    The number of pods of one Job is not on a pod, so it follows from the map: the Jobs share its
    lines out evenly. Kueue derives it in the same way, from the number of all pods and of the Jobs
    (``PodSetTopologyRequest.subGroupCount``).
    """

    def read(marks: Marks) -> Index | None:
        counted = _job_number(marks.labels, job_key, count_key)
        if counted is None or not marks.lines or marks.lines % counted[1]:
            return None
        return _in_share(marks, *counted)

    return read


def with_spare_lines(*keys: tuple[str, str]) -> Read:
    """JobSet, with lines that no count divides: the Jobs of the first count share out most of them.

    Without a number of lines only the pods of the first Job, and Jobs of one pod, have an index.
    """

    def read(marks: Marks) -> Index | None:
        labels = marks.labels
        numbers = [labels[key] for key, _ in reversed(keys) if key in labels]
        if not numbers:
            return None
        for key, count_key in keys:
            counted = _job_number(labels, key, count_key)
            if counted is not None and marks.lines:
                return _in_share(marks, *counted)
        job, within = canonical_number(numbers[0]), _within_job(labels)
        if job is None or within is None:
            return IndexRule.UNKNOWN
        return IndexRule.ASSIGNED if job and within else job + within

    return read


def _job_number(labels: Mapping[str, str], key: str, count_key: str) -> tuple[int, int] | None:
    """The number of the pod's Job, and the number of Jobs; None without them, and in a group that
    the user did not name.
    """
    group = labels.get(well_known.JOBSET_GROUP, _DEFAULT_GROUP)
    if key == well_known.JOBSET_GROUP_JOB and group == _DEFAULT_GROUP:
        return None
    job, jobs = canonical_number(labels.get(key, "")), canonical_number(labels.get(count_key, ""))
    return (job, jobs) if job is not None and jobs else None


def _within_job(labels: Mapping[str, str]) -> int | None:
    return canonical_number(labels.get(well_known.JOB_INDEX, "0"))


def _in_share(marks: Marks, job: int, jobs: int) -> Index:
    share, within = max(1, marks.lines // jobs), _within_job(marks.labels)
    if within is None:
        return IndexRule.UNKNOWN
    if share > 1 and well_known.JOB_INDEX not in marks.labels:
        return IndexRule.ASSIGNED  # the pods of a Job without indexes are interchangeable
    if within >= share:
        return _bounded(marks.lines + within)  # more pods than lines: not another Job's line
    return _bounded(job * share + within)


def _bounded(index: int) -> Index:
    return index if index <= MAP_INDEX_MAX else IndexRule.UNKNOWN
