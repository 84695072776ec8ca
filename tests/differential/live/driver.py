"""Runs sequences in lock step: one write at a time, and each pod is compared before the next.

A pod is created when our watches have seen the last write, and kube-scheduler's informers too. A
difference counts if it stands when the same pod is created again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec

from tests.differential import manifests
from tests.differential.answers import (
    Answer,
    Effects,
    OurAnswer,
    Preemption,
    Victims,
    allocation_difference,
    difference,
    failed,
    placed,
    preemption_difference,
    rejected,
)
from tests.differential.live.claim_controller import ClaimController, Deallocated
from tests.differential.live.extender import Extender, MetaVictims, Question
from tests.differential.live.kube_scheduler import KubeScheduler
from tests.differential.live.mirror import PATIENCE_S, HarnessError, Mirror
from tests.differential.live.volume_controller import VolumeController
from tests.differential.live.writes import Writer
from tests.differential.manifests import key_of
from tests.differential.recordings import Recording
from tests.differential.sequence import (
    CreatePod,
    DeleteNode,
    DeleteObject,
    DeletePod,
    EndPod,
    LabelPod,
    ObjectChange,
    PlacePod,
    PodChange,
    Sequence,
    SetNamespace,
    SetNode,
    SetObject,
    Workload,
)

Json = dict[str, Any]

#: How often a pod is asked about before a difference counts.
ASKED_MAX: Final = 3
#: How often a pod is created until both schedulers have answered about the same state.
CREATED_MAX: Final = 10
#: A pod that has no answer after this time is created again.
SILENCE_MAX_S: Final = 15.0
_POLL_S: Final = 0.005
_POLLS_MAX: Final = 2000


class Differs(Exception):
    """A difference that stands; ``recording`` ends with the pod and kube-scheduler's answer."""

    def __init__(self, recording: Recording, pod: str, problem: str) -> None:
        super().__init__(f"{recording.sequence.name}, pod {pod}: {problem}")
        self.recording = recording


class _Asked(NamedTuple):
    """A pod, our answer, and kube-scheduler's with the question to its extender, if it has one."""

    key: str
    uid: str
    ours: OurAnswer
    theirs: Answer
    question: Question | None


class Driver:
    """Runs sequences one after the other on one control plane."""

    def __init__(
        self,
        writer: Writer,
        mirror: Mirror,
        extender: Extender,
        volumes: VolumeController,
        claims: ClaimController,
        kube_scheduler: KubeScheduler,
        session: aiohttp.ClientSession,
    ) -> None:
        self._writer = writer
        self._mirror = mirror
        self._extender = extender
        self._volumes = volumes
        self._claims = claims
        self._kube_scheduler = kube_scheduler
        self._session = session
        #: The keys of live pods by their names in the sequence.
        self._live: dict[str, str] = {}
        self._workloads: tuple[Workload, ...] = ()
        self._created = 0

    async def run(self, sequence: Sequence) -> Recording:
        """Run one sequence; the answers of kube-scheduler, or Differs."""
        self._extender.refuse_all()
        await self._writer.empty()
        self._live.clear()
        self._claims.forget()
        self._volumes.forget()
        self._workloads = sequence.workloads
        answers: list[Answer] = []
        await asyncio.gather(*map(self._change, sequence.first_steps()))
        for step in (*sequence.objects, *sequence.steps):
            if not isinstance(step, CreatePod):
                await self._change(step)
                continue
            theirs, problem = await self._place(sequence, step)
            answers.append(theirs)
            if problem:
                recording = Recording(sequence=sequence.until(step), answers=tuple(answers))
                raise Differs(recording, step.name, problem)
        return Recording(sequence=sequence, answers=tuple(answers))

    # --- comparing ---------------------------------------------------------------------------

    async def _place(self, sequence: Sequence, step: CreatePod) -> tuple[Answer, str]:
        """Create a pod until both answers are equal; kube-scheduler's, and what differs."""
        theirs, problem = Answer(), ""
        for _ in range(ASKED_MAX):
            asked = await self._asked(step)
            key, ours, theirs, question = asked.key, asked.ours, asked.theirs, asked.question
            choice, problem = self._compared(key, ours, theirs)
            if not problem and question is not None and theirs.preemption is not None:
                theirs, question, problem = await self._preempted(key, ours, theirs, question)
                choice = theirs.nodes
            if not problem and question is not None:
                bound = await self._bind(key, question, choice)
                effects: Effects = (*bound, *await self._claims.allocated(key))
                theirs = msgspec.structs.replace(theirs, choice=choice, effects=effects)
                problem = allocation_difference(theirs, ours)
                if not problem:
                    self._live[step.name] = key
                    if sequence.preempts:
                        await self._writer.start_pod(key, manifests.start_time(step.name))
                    return theirs, ""
            elif not problem:
                freed = await self._claims.deallocated(key)
                theirs = msgspec.structs.replace(theirs, effects=freed)
            await self._give_up(key, asked.uid)
            if not problem:
                break
        return theirs, problem

    async def _asked(self, step: CreatePod) -> _Asked:
        """Create a pod; both answers.

        A pod without an answer is created again once: kube-scheduler does not repeat a write of a
        condition that fails, for example because etcd is slow. So is one of whose claims
        kube-scheduler gave one up, and then tried it again before its rejection was seen.
        """
        silence = ""
        for _ in range(CREATED_MAX):
            workload = self._workloads[step.workload]
            body = manifests.pod(self._unique(step.name), workload)
            key = key_of(body)
            await self._both_have_seen()
            allocated = await self._claims.allocated_of(body)
            uid = await self._create(body)
            await self._claims.create_for(body, uid, workload, self._both_have_seen)
            ours = self._mirror.side.answer(uid)
            try:
                self._claims.check_seen(allocated)
                theirs, question = await self._theirs(
                    key, uid, PATIENCE_S if silence else SILENCE_MAX_S
                )
                if question is not None:
                    await self._claims.check(allocated)
                return _Asked(key, uid, ours, theirs, question)
            except Deallocated:
                await self._give_up(key, uid)
                await self._claims.restore(allocated)
            except HarnessError as error:
                if silence:
                    break
                silence = str(error)
                self._extender.refuse_all()
                await self._give_up(key, uid)
        raise HarnessError(f"{silence}; kube-scheduler's log ends\n{self._kube_scheduler.log()}")

    async def _create(self, body: Json) -> str:
        """Create a pod with the claims of its ephemeral volumes, and let schedulers see it then;
        its uid."""
        gated = manifests.gated(body) if manifests.ephemeral_claims(body, "") else body
        uid = (await self._writer.create_pod(gated)).metadata.uid
        if await self._volumes.create_for(body, uid):
            await self._both_have_seen()
            await self._writer.open_gate(key_of(body))
        return uid

    async def _give_up(self, key: str, uid: str) -> None:
        self._extender.give_up(uid)
        await self._remove(key)

    async def _remove(self, key: str) -> None:
        """Remove a pod at once, and what belongs to it."""
        await self._writer.remove_pod(key)
        await self._release(key)

    async def _release(self, key: str) -> None:
        await self._claims.release(key)
        await self._volumes.release(key)

    def _compared(self, key: str, ours: OurAnswer, theirs: Answer) -> tuple[str, str]:
        """Our choice, and what differs."""
        nominated = self._mirror.objects["pods"][key].status.nominated_node_name
        if nominated and theirs.nodes == nominated:
            ours = ours.only_at(nominated)
        return ours.choice, difference(theirs, ours)

    async def _theirs(
        self, key: str, uid: str, patience_s: float
    ) -> tuple[Answer, Question | None]:
        """kube-scheduler's answer: a question to its extender, or a condition on the pod."""
        questions = self._extender.questions
        seen = await self._mirror.pod_until(
            key,
            lambda pod: uid in questions or pod.unschedulable != "" or pod.error != "",
            patience_s,
        )
        question = questions.get(uid)
        if question is None and seen.error:
            return failed(), None
        if question is None:
            return rejected(seen.unschedulable), None
        if question.victims is not None:
            return Answer(preemption=Preemption(self._named(question.victims))), question
        return placed(question.nodes, ""), question

    def _named(self, victims: Mapping[str, MetaVictims]) -> dict[str, Victims]:
        """The victims by the names of the sequence."""
        names = {
            seen.metadata.uid: seen.metadata.name.partition("-")[0]
            for seen in self._mirror.objects["pods"].values()
        }
        return {
            node: Victims(" ".join(sorted(names[pod.uid] for pod in one.pods)), one.violations)
            for node, one in victims.items()
        }

    async def _preempted(
        self, key: str, ours: OurAnswer, theirs: Answer, question: Question
    ) -> tuple[Answer, Question | None, str]:
        """Let kube-scheduler preempt, delete the victims, and wait until the pod is asked about
        again: on its nominated node only."""
        assert theirs.preemption is not None
        question.agree()
        seen = await self._mirror.pod_until(key, lambda pod: pod.status.nominated_node_name != "")
        nominated = seen.status.nominated_node_name
        found = Preemption(theirs.preemption.candidates, nominated)
        theirs = msgspec.structs.replace(theirs, preemption=found)
        victims = [self._live.pop(name) for name in found.candidates[nominated].pods.split()]
        for victim in victims:
            await self._mirror.pod_until(victim, lambda pod: bool(pod.metadata.deletion_timestamp))
        for victim in victims:
            await self._writer.remove_pod(victim)
        if problem := preemption_difference(found, ours):
            return theirs, None, problem
        uid = seen.metadata.uid
        again = await self._asked_again(key, uid, question)
        ours = self._mirror.side.answer(uid).only_at(nominated)
        problem = difference(placed(again.nodes, ""), ours)
        return msgspec.structs.replace(theirs, nodes=" ".join(again.nodes)), again, problem

    async def _asked_again(self, key: str, uid: str, first: Question) -> Question:
        """The next question about the pod's node.

        kube-scheduler may ask about the same victims once more before it sees that they are gone.
        """
        questions = self._extender.questions
        assert first.victims is not None
        for _ in range(ASKED_MAX):
            await self._mirror.pod_until(key, lambda _: uid in questions)
            question = questions[uid]
            if question.victims is None:
                return question
            if not question.pods <= first.pods:
                question.refuse("other victims")
                raise HarnessError(f"{key}: {question.victims} after {first.victims}")
            del questions[uid]
            question.agree()
        raise HarnessError(f"{key} preempts the same pods again and again")

    async def _bind(self, key: str, question: Question, node_name: str) -> tuple[SetObject, ...]:
        """Let kube-scheduler bind the pod to this node; what changed before."""
        question.choose(node_name)
        effects = await self._volumes.bind_claims_of(key)
        seen = await self._mirror.pod_until(key, lambda pod: pod.spec.node_name != "")
        if seen.spec.node_name != node_name:
            raise HarnessError(f"{key} went to {seen.spec.node_name}, not to {node_name}")
        return effects

    async def _both_have_seen(self) -> None:
        """Wait until kube-scheduler's informers are where ours are."""
        newest = {kind: self._mirror.newest[kind] for kind in self._writer.written}
        for _ in range(_POLLS_MAX):
            if not newest or await self._kube_scheduler.has_seen(self._session, newest):
                self._writer.written.clear()
                return
            await asyncio.sleep(_POLL_S)
        raise HarnessError(f"kube-scheduler did not see {newest}")

    # --- the other steps ---------------------------------------------------------------------

    async def _change(self, step: PlacePod | PodChange | ObjectChange) -> None:
        match step:
            case SetNamespace(name, labels):
                await self._writer.set_namespace(name, labels)
            case SetNode(form):
                await self._writer.set_node(form)
            case DeleteNode(name):
                await self._writer.delete_node(name)
            case SetObject(kind, manifest):
                await self._writer.set_object(kind, manifest)
            case DeleteObject("resourceclaims", key):
                await self._claims.delete(key)
            case DeleteObject(kind, key):
                await self._writer.delete_object(kind, key)
            case PlacePod(name, workload, node_name):
                template = self._workloads[workload]
                body = manifests.foreign(self._unique(name), template, node_name)
                uid = (await self._writer.create_pod(body)).metadata.uid
                await self._volumes.create_for(body, uid)
                self._live[name] = key_of(body)
            case DeletePod(name) | EndPod(name) | LabelPod(name):
                if name in self._live:
                    await self._change_pod(step, self._live[name])

    async def _change_pod(self, step: PodChange, key: str) -> None:
        match step:
            case DeletePod(name, graceful=False):
                del self._live[name]
                await self._remove(key)
            case DeletePod():
                await self._writer.terminate_pod(key)
            case EndPod(name):
                del self._live[name]
                await self._writer.end_pod(key)
                await self._release(key)
            case LabelPod(labels=labels):
                await self._writer.label_pod(key, labels)

    def _unique(self, name: str) -> str:
        """A name that no pod had: kube-scheduler confuses a pod that failed with a new one of the
        same name (``schedule_one.go`` handleSchedulingFailure reads the newest of that name)."""
        self._created += 1
        return f"{name}-{self._created}"
