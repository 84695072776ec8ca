"""Leader election on a Lease: one process decides, the others are ready to take over.

The rules are those of ``client-go/tools/leaderelection``: a lease counts as expired only after it
was unchanged for its whole duration on *our* monotonic clock; two clocks are never compared. The
next step is a pure function of the observed lease; the loop below only executes it. The lease's
``leaseTransitions`` is the epoch that every Binding carries. Terms only grow: the first term of a
new or empty lease is a time, not zero (decision 0022).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import structlog

from scheduler.model.lease import Lease, LeaseSpec, Step, next_step, with_address
from scheduler.model.timestamps import micro_time
from scheduler.watch.client import ApiError, Client, Unreachable


class Timings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Seconds; duration > renew deadline > retry period."""

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0


#: No request is sent this long before the deadline, because it could arrive after it (design 5.20).
MARGIN_S = 3.0
#: With short timings the margin is this part of the renew deadline.
MARGIN_PART = 0.3

#: A lease without a term starts with the seconds since this time; 32 bits hold them until 2088.
FIRST_TERM = datetime(2020, 1, 1, tzinfo=UTC)

log = structlog.get_logger("leader")


class LeaderElector:
    """Takes part in the election; ``leads()`` is checked before every decision and Binding.

    A process that loses the lease continues: it keeps its caches and tries to acquire the lease
    again. Stopping has two steps: ``stop_leading()`` ends leading at once while the lease is kept,
    ``release()`` releases it after every request in flight has ended. With ``enabled=False`` the
    process leads until ``stop_leading()`` without a Lease.
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        timings: Timings,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        rng: random.Random,
        on_change: Callable[[bool], None],
        enabled: bool = True,
        address: str = "",
    ) -> None:
        self._client = client
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._metadata = msgspec.Raw(msgspec.json.encode({"name": name, "namespace": namespace}))
        self._me = identity
        self._timings = timings
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._on_change = on_change
        self.is_enabled = enabled
        self._address = address
        self._seen: tuple[LeaseSpec, float] | None = None
        self._renewed_at: float | None = None
        self._holds = False
        self._is_stopped = False
        self._follows = ""
        self._taken_at = 0.0
        self._started_at = clock()
        self._round_end = asyncio.Event()
        self.epoch: int | None = None
        #: The address on which another process, the leader, answers admission queries; empty if
        #: there is none.
        self.leader_address = ""

    def leads(self) -> bool:
        """Whether this process may decide and send now; false once the deadline is near."""
        if self._is_stopped or not self.is_enabled:
            return not self._is_stopped
        if not self._holds or self._renewed_at is None:
            return False
        deadline_s = self._timings.renew_deadline_s
        margin_s = min(MARGIN_S, MARGIN_PART * deadline_s)
        return self._clock() - self._renewed_at < deadline_s - margin_s

    @property
    def holder(self) -> str:
        """The identity of the leader as this process last saw it; empty if there is none."""
        return self._me if self.leads() else self._follows

    @property
    def led_since(self) -> float | None:
        """When this process acquired the lease (monotonic); None while it does not lead."""
        if not self.leads():
            return None
        return self._taken_at if self.is_enabled else self._started_at

    def stop_leading(self) -> None:
        """Stop leading; the lease is kept until it is released."""
        self._is_stopped = True
        self._on_change(False)

    async def run(self) -> None:
        """Acquire and renew the lease until cancelled; the lease is kept then."""
        self._on_change(self.leads())
        if not self.is_enabled:
            log.info("leading without leader election")
            await asyncio.Event().wait()
        while True:
            await self._round()
            self._on_change(self.leads())
            self._end_round()
            pause = self._timings.retry_period_s
            await asyncio.sleep(pause if self._holds else pause * (1 + self._rng.random()))

    async def next_term(self, epoch: int | None) -> float:
        """Wait for a term of this process other than ``epoch``; returns when it began (monotonic
        seconds).
        """
        while not (self._holds and self.epoch is not None and self.epoch != epoch):
            await self.round_ended()
        return self._taken_at

    async def round_ended(self) -> None:
        """Wait for the end of the current attempt at the lease, whatever its result."""
        await self._round_end.wait()

    def _end_round(self) -> None:
        # A caller that waits from here on waits for the next round.
        self._round_end.set()
        self._round_end = asyncio.Event()

    async def _round(self) -> None:
        started = self._clock()
        try:
            lease = await self._read()
            step = next_step(
                lease, self._me, self._unchanged_s(lease), self._timings.lease_duration_s
            )
            self.leader_address = lease.address if lease and step is Step.WAIT else ""
            if step is Step.WAIT:
                self._holds = False
                self._stand_by(lease)
                return
            await self._write(lease, step)
        except ApiError as error:
            # 409: another process was faster. For any other error the deadline decides.
            self._holds = self._holds and error.status != 409
        except Unreachable:
            pass
        else:
            # The renewal counts from before the request, not from its response.
            self._holds = True
            self._follows = ""
            self._renewed_at = started

    def _stand_by(self, lease: Lease | None) -> None:
        holder = (lease.spec.holder_identity if lease else None) or ""
        if holder != self._follows:
            self._follows = holder
            log.info("another replica is the leader", holder=holder)

    async def _read(self) -> Lease | None:
        try:
            content = await self._request("GET", f"{self._path}/{self._name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return msgspec.json.decode(content, type=Lease)

    def _unchanged_s(self, lease: Lease | None) -> float:
        if lease is None:
            return 0.0
        now = self._clock()
        if self._seen is None or self._seen[0] != lease.spec:
            self._seen = (lease.spec, now)
        return now - self._seen[1]

    async def _write(self, lease: Lease | None, step: Step) -> None:
        now = micro_time(self._wall())
        old = lease.spec if lease else LeaseSpec()
        # A deleted lease is created with a new term: no term is used twice.
        known = old if lease or self._seen is None else self._seen[0]
        transitions = known.lease_transitions or self._first_term()
        if known.lease_transitions and (step is Step.ACQUIRE or known is not old):
            transitions += 1
        spec = LeaseSpec(
            holder_identity=self._me,
            lease_duration_seconds=max(1, round(self._timings.lease_duration_s)),
            acquire_time=old.acquire_time if step is Step.RENEW else now,
            renew_time=now,
            lease_transitions=transitions,
        )
        metadata = with_address(lease.metadata if lease else self._metadata, self._address)
        body = msgspec.json.encode(Lease(metadata, spec))
        if step is Step.CREATE:
            await self._request("POST", self._path, body)
        else:
            await self._request("PUT", f"{self._path}/{self._name}", body)
        if transitions != self.epoch or step is Step.CREATE:
            self._taken_at = self._clock()
        self.epoch = transitions

    def _first_term(self) -> int:
        return max(1, int((self._wall() - FIRST_TERM).total_seconds()))

    async def release(self) -> None:
        """Release an own lease, so that the next leader need not wait for its expiry."""
        if not self._holds:
            return
        self._holds = False
        try:
            lease = await self._read()
            if lease is None or lease.spec.holder_identity != self._me:
                return
            spec = msgspec.structs.replace(
                lease.spec,
                holder_identity="",
                lease_duration_seconds=1,
                renew_time=micro_time(self._wall()),
            )
            body = msgspec.json.encode(Lease(with_address(lease.metadata, ""), spec))
            await self._request("PUT", f"{self._path}/{self._name}", body)
        except (ApiError, Unreachable):
            return  # it expires by itself

    async def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        timeout_s = self._timings.renew_deadline_s / 2
        return await self._client.request(method, path, body, timeout_s=timeout_s)
