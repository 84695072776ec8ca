"""All gangs by key, kept by the events of pods and PodGroups; no question walks over the pods.

Only pods with a ``group`` reach this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from scheduler.model.limits import GANGS_REMEMBERED_MAX
from scheduler.model.pods.gang import READ_ON_DEMAND, GangKey, GangSource, PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.state.gangs.gang import Gang


class GangIndex:
    """The gangs of all schedulers; ``scheduler_name`` is ours."""

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._gangs: dict[GangKey, Gang] = {}
        self._groups: dict[GangKey, PodGroup] = {}
        #: Gangs that reached their minimum, with the owners of their members; the oldest first.
        self._ran: dict[tuple[GangKey, str], None] = {}
        #: The sources whose objects the API server serves.
        self._served: set[str] = set()
        #: Gangs with members that wait, whose owner has the minimum.
        self.to_read: set[GangKey] = set()
        #: PodGroups of the API server whose condition may have become true.
        self.to_report: set[GangKey] = set()

    def __iter__(self) -> Iterator[Gang]:
        return iter(self._gangs.values())

    def key_of(self, pod: Pod) -> GangKey | None:
        """The gang of a pod; None if it is placed alone.

        A label whose kind of object is not installed names no gang.
        """
        mark = pod.gang if pod.group else None
        if mark is None or mark.minimum is not None:
            return None if mark is None else mark.key
        if mark.key.source not in self._served and mark.key.source not in READ_ON_DEMAND:
            return None
        group = self._groups.get(mark.key)
        return mark.key if group is None or group.is_gang else None

    def of(self, pod: Pod) -> Gang | None:
        """The gang of a known pod; None if it is placed alone."""
        key = self.key_of(pod)
        return None if key is None else self._gangs.get(key)

    def at(self, key: GangKey) -> Gang | None:
        """A gang with living members."""
        return self._gangs.get(key)

    def is_complete(self, key: GangKey) -> bool:
        """Whether enough members exist to be planned."""
        gang = self._gangs.get(key)
        return gang is not None and gang.is_complete

    def waiting(self, key: GangKey) -> Iterable[str]:
        """The uids of the members that may be placed now."""
        gang = self._gangs.get(key)
        return () if gang is None else sorted(gang.waiting)

    def group(self, key: GangKey) -> PodGroup | None:
        """The object that defines a gang."""
        return self._groups.get(key)

    def prioritized(self, pod: Pod) -> Pod:
        """The pod with the priority of its PodGroup, if that has one."""
        mark = pod.gang
        group = self._groups.get(mark.key) if mark is not None else None
        if group is None or group.priority is None or group.priority == pod.priority:
            return pod
        return msgspec.structs.replace(pod, priority=group.priority)

    def is_started(self, key: GangKey) -> bool:
        """Whether a member has a node, or had one."""
        gang = self._gangs.get(key)
        return gang is not None and gang.is_started

    # --- events ----------------------------------------------------------------------

    def upsert(self, pod: Pod, before: Pod | None, *, is_placed: bool) -> GangKey | None:
        """A pod's newest state; returns its gang if a member that waits can start now because of
        this pod.
        """
        mark = pod.gang if pod.group else None
        if before is not None and before.group:
            former = before.gang
            if former is not None and (mark is None or former.key != mark.key):
                self._leave(former.key, pod.uid)
        if mark is None:
            return None
        gang = self._gangs.get(mark.key)
        if gang is None:
            gang = self._gangs[mark.key] = Gang(mark.key)
            self._define(gang, self._groups.get(mark.key))
        was_complete = gang.is_complete
        gang.put(pod, mark.minimum)
        self._sort(gang, pod, is_placed=is_placed)
        if pod.node_name and len(gang.placed) >= (gang.minimum or 0):
            self._remember(gang, pod)
            self._note(mark.key)
        return mark.key if is_placed and gang.is_complete and not was_complete else None

    def place(self, pod: Pod) -> None:
        """A member is assumed on a node."""
        gang = self._gang_of_member(pod)
        if gang is not None:
            self._sort(gang, pod, is_placed=True)

    def take_back(self, pod: Pod) -> None:
        """A member is assumed no more."""
        gang = self._gang_of_member(pod)
        if gang is not None:
            self._sort(gang, gang.members[pod.uid], is_placed=False)

    def delete(self, pod: Pod) -> None:
        """A pod was deleted, or has ended."""
        mark = pod.gang
        if mark is not None:
            self._leave(mark.key, pod.uid)

    def upsert_group(self, group: PodGroup) -> list[GangKey]:
        """A PodGroup's newest state; returns the gang if it has members."""
        if group.source not in READ_ON_DEMAND:
            self._served.add(group.source)
        self._groups[group.key] = group
        self._note(group.key)
        return self._redefine(group.key, group)

    def delete_group(self, key: GangKey) -> list[GangKey]:
        """A PodGroup was deleted; likewise."""
        self._groups.pop(key, None)
        return self._redefine(key, None)

    def replace_groups(
        self,
        groups: Iterable[PodGroup],
        *,
        is_served: bool,
        source: str = GangSource.COSCHEDULING.value,
    ) -> list[GangKey]:
        """All PodGroups of a source; returns the gangs that changed."""
        listed = {one.key: one for one in groups}
        gone = [key for key in self._groups if key.source == source and key not in listed]
        was_served = source in self._served
        changed = [key for one in gone for key in self.delete_group(one)]
        changed += [key for one in listed.values() for key in self.upsert_group(one)]
        (self._served.add if is_served else self._served.discard)(source)
        if was_served != is_served:
            changed = [key for key in self._gangs if key.source == source]
        return changed

    def groups(self) -> dict[str, tuple[PodGroup, ...]]:
        """All PodGroups by source, of those that the API server serves."""
        found: dict[str, list[PodGroup]] = {source: [] for source in sorted(self._served)}
        for one in self._groups.values():
            found.setdefault(one.source, []).append(one)
        return {source: tuple(groups) for source, groups in found.items()}

    # --- one gang --------------------------------------------------------------------

    def _gang_of_member(self, pod: Pod) -> Gang | None:
        mark = pod.gang
        gang = self._gangs.get(mark.key) if mark is not None else None
        return gang if gang is not None and pod.uid in gang.members else None

    def _sort(self, gang: Gang, pod: Pod, *, is_placed: bool) -> None:
        waits = not is_placed and pod.waits_for(self._scheduler_name)
        stays = is_placed and not pod.is_deleting
        ran = waits and pod.owner is not None and (gang.key, pod.owner.uid) in self._ran
        (gang.placed.add if stays else gang.placed.discard)(pod.uid)
        (gang.waiting.add if waits else gang.waiting.discard)(pod.uid)
        if waits and gang.key.source in READ_ON_DEMAND:
            self.to_read.add(gang.key)
        (gang.returning.add if ran else gang.returning.discard)(pod.uid)

    def _remember(self, gang: Gang, pod: Pod) -> None:
        """The minimum of a gang has nodes: what its owners create from now on are replacements."""
        if pod.owner is None or (gang.key, pod.owner.uid) in self._ran:
            return
        every = (gang.members[uid].owner for uid in gang.placed)
        for owner in {one.uid for one in every if one is not None}:
            self._ran[(gang.key, owner)] = None
        while len(self._ran) > GANGS_REMEMBERED_MAX:
            del self._ran[next(iter(self._ran))]

    def _leave(self, key: GangKey, uid: str) -> None:
        gang = self._gangs.get(key)
        if gang is None:
            return
        gang.drop(uid)
        if not gang.members:
            del self._gangs[key]
            if key.source in READ_ON_DEMAND:
                self._groups.pop(key, None)

    def _redefine(self, key: GangKey, group: PodGroup | None) -> list[GangKey]:
        gang = self._gangs.get(key)
        return [key] if gang is not None and self._define(gang, group) else []

    def _define(self, gang: Gang, group: PodGroup | None) -> bool:
        """Take over what the object of a gang says; returns whether that is news."""
        before = (gang.of_object, gang.roles, gang.problem, gang.is_defined)
        gang.is_defined = group is not None
        gang.of_object = None if group is None else group.minimum
        gang.roles = {} if group is None else group.roles
        gang.problem = "" if group is None else group.problem
        return before != (gang.of_object, gang.roles, gang.problem, gang.is_defined)

    def _note(self, key: GangKey) -> None:
        """The minimum of a PodGroup may have nodes now."""
        if key.source == GangSource.API.value:
            self.to_report.add(key)
