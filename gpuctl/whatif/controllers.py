"""Creates pods in place of those that end in the simulator, as their controllers do.

An evicted pod is created again at once. A preempted pod is created again after the pods that are
created at the same time as its preemptor, because these have the same or a higher priority.
"""

from __future__ import annotations

from gpuctl.simulate.engine import Simulator
from gpuctl.whatif.live_state import LiveState
from scheduler.model.pods.pod import Pod


class Controllers:
    """The pods that were created in place of others.

    ``uids`` are all of them. ``unread`` are preempted pods whose controllers were not read.
    """

    def __init__(self, simulator: Simulator, live: LiveState) -> None:
        self._simulator = simulator
        self._planned = dict(live.recreated)
        self._existing = {pod.uid for pod in live.state.pods}
        self._successors: dict[str, str] = {}
        self._seen = 0
        self.uids: set[str] = set()
        self.unread: dict[str, Pod] = {}

    def knows(self, pod: Pod) -> bool:
        """Whether the pod's controller and template are known."""
        return pod.uid in self._planned

    def recreate(self, pod: Pod) -> str:
        """Create a pod in place of one that ended; returns its uid."""
        planned = self._planned[pod.uid]
        uid = self._simulator.create(planned, pod.namespace, pod.priority)
        self._planned[uid] = planned
        self._successors[pod.uid] = uid
        self.uids.add(uid)
        return uid

    def recreate_preempted(self) -> None:
        """Create pods in place of those that were preempted since the last call."""
        preempted = self._simulator.preempted
        while self._seen < len(preempted):
            pod = preempted[self._seen]
            self._seen += 1
            if self.knows(pod):
                self.recreate(pod)
            elif pod.owner is not None and pod.uid in self._existing:
                self.unread[pod.uid] = pod

    def has_ended(self, pod: Pod) -> bool:
        """Whether a preempted pod is replaced by another one, or by none."""
        return pod.owner is None or pod.uid in self._successors

    def newest(self, uid: str) -> str:
        """The pod that is there now in place of one that may have been preempted."""
        while uid in self._successors:
            uid = self._successors[uid]
        return uid
