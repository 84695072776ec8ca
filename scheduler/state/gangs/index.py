"""All gangs by key, kept by the events of pods and PodGroups; no question walks over the pods.

Only pods with a ``group`` reach this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.model.limits import GANGS_REMEMBERED_MAX
from scheduler.model.pods.gang import GangKey, PodGroup
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
        #: Whether the API server serves the PodGroups of scheduler-plugins.
        self.is_served = False

    def __iter__(self) -> Iterator[Gang]:
        return iter(self._gangs.values())

    def key_of(self, pod: Pod) -> GangKey | None:
        """The gang of a pod; None if it is placed alone.

        A label whose kind of object is not installed names no gang.
        """
        mark = pod.gang if pod.group else None
        if mark is None or (mark.minimum is None and not self.is_served):
            return None
        return mark.key

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
            group = self._groups.get(mark.key)
            gang.of_object = None if group is None else group.minimum
        was_complete = gang.is_complete
        gang.put(pod, mark.minimum)
        self._sort(gang, pod, is_placed=is_placed)
        if pod.node_name and len(gang.placed) >= (gang.minimum or 0):
            self._remember(gang, pod)
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
        self.is_served = True
        self._groups[group.key] = group
        return self._set_minimum(group.key, group.minimum)

    def delete_group(self, key: GangKey) -> list[GangKey]:
        """A PodGroup was deleted; likewise."""
        self._groups.pop(key, None)
        return self._set_minimum(key, None)

    def replace_groups(self, groups: Iterable[PodGroup], *, is_served: bool) -> list[GangKey]:
        """All PodGroups that exist; returns the gangs that changed."""
        listed = {one.key: one for one in groups}
        gone = [key for key in self._groups if key not in listed]
        changed = [key for one in gone for key in self.delete_group(one)]
        changed += [key for one in listed.values() for key in self.upsert_group(one)]
        if self.is_served != is_served:
            self.is_served = is_served
            changed = [gang.key for gang in self._gangs.values()]
        return changed

    def groups(self) -> tuple[PodGroup, ...]:
        """All PodGroups that are known."""
        return tuple(self._groups.values())

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

    def _set_minimum(self, key: GangKey, minimum: int | None) -> list[GangKey]:
        gang = self._gangs.get(key)
        if gang is None or gang.of_object == minimum:
            return []
        gang.of_object = minimum
        return [key]
