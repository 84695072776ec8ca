"""All checks in order, within one time limit, and the namespace removed at the end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from gpuctl import cluster_access
from gpuctl.cluster_access import Access
from gpuctl.doctor.finding import Finding, fail, ok, skip, warn
from gpuctl.exporter.services import SCRAPE_S, list_exporters, scrape
from gpuctl.input_error import NotReached
from gpuctl.targets import PAGE
from gpuctl.verify import cluster_checks, placement_checks, sharing_checks
from gpuctl.verify.hosts import Host, Raw, hosts
from gpuctl.verify.result import NodeSummary, PriorityLevel, Result
from gpuctl.verify.trial import Trial
from gpuctl.verify.trial_namespace import PRIORITY_CLASSES
from scheduler.watch import paged_list
from scheduler.watch.client import ApiError, Client, Unreachable


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """``timeout_s`` bounds one wait, ``total_s`` the run without its cleanup and without waits for
    images. ``fill`` permits the check that takes all free instances of a MIG profile.
    """

    access: Access
    scheduler: str
    namespace: str
    image: str
    metrics_url: str = ""
    timeout_s: float = 30.0
    total_s: float = 240.0
    fill: bool = False


class Stop:
    """Ends a run early, after its cleanup; ``by`` says what ends it."""

    def __init__(self) -> None:
        self.by = ""
        self.event = asyncio.Event()

    def set(self, by: str) -> None:
        """End the run; the first one counts."""
        self.by = self.by or by
        self.event.set()


class _Ended(Exception):
    """No further check is possible; the finding about it is there."""


Check = Callable[[], Awaitable[Finding]]


async def verify(
    client: Client,
    options: Options,
    say: Callable[[Finding], None],
    note: Callable[[str], None] = lambda text: None,
    stop: Stop | None = None,
) -> Result:
    """Run every check; ``say`` gets each finding at once, ``note`` what takes long.

    ApiError if no namespace can be made. Whatever ends the run, all that it made is removed, and
    what it found is returned.
    """
    stop = stop or Stop()
    run = _Run(client, options, say, note)
    try:
        if await _is_stopped(run.checks(), stop):
            run.ended_by = stop.by
    except (_Ended, Unreachable) as error:
        if not run.has_begun:
            raise
        run.ended_by = str(error)
    finally:
        # Also after an interrupt: nothing of the run stays.
        await run.remove()
    return run.result()


async def _is_stopped(work: Coroutine[Any, Any, None], stop: Stop) -> bool:
    """Run until the end of the work, or until the stop; whether it was the stop."""
    task = asyncio.create_task(work)
    stopped = asyncio.create_task(stop.event.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in (task, stopped):
            one.cancel()
        await asyncio.wait({task, stopped})
    if task.cancelled():
        return True
    task.result()
    return False


class _Run:
    """One run; what it read and found so far."""

    def __init__(
        self,
        client: Client,
        options: Options,
        say: Callable[[Finding], None],
        note: Callable[[str], None],
    ) -> None:
        self._trial = Trial(
            client,
            options.namespace,
            scheduler=options.scheduler,
            image=options.image,
            timeout_s=options.timeout_s,
            on_pull=self._pulled,
        )
        self._options = options
        self._say = say
        self._note = note
        self._ends = time.monotonic() + options.total_s
        self._limit: asyncio.Timeout | None = None
        self._noted: set[str] = set()
        self._findings: list[Finding] = []
        self._hosts: tuple[Host, ...] = ()
        self._levels: tuple[PriorityLevel, ...] = ()
        self._metrics: dict[str, int] = {}
        self.has_begun = False
        self.ended_by = ""

    async def checks(self) -> None:
        """Every check in order; later ones rely on nothing of earlier ones but what was read."""
        trial = self._trial
        await trial.begin()
        self.has_begun = True
        pods = await self._read()
        found = self._hosts
        await self._one("install", self._install)
        self._found(cluster_checks.check_plugin(found, pods))
        self._found(cluster_checks.check_resources(found))
        self._found(cluster_checks.check_classes(self._levels))
        placement, sharing = placement_checks, sharing_checks
        await self._one("place", lambda: placement.check_place(trial, found))
        await self._one("explain", lambda: placement.check_explain(trial, found))
        await self._one("affinity", lambda: placement.check_affinity(trial, found))
        await self._one("taints", lambda: placement.check_taints(trial, found))
        await self._one("toleration", lambda: placement.check_toleration(trial, found))
        await self._one("preemption", lambda: sharing.check_preemption(trial, found, self._levels))
        await self._one("sharing", lambda: sharing.check_sharing(trial, found))
        await self._one(
            "fallback", lambda: sharing.check_fallback(trial, found, fill=self._options.fill)
        )
        await self._one("honours", lambda: placement.check_honours(trial, found))
        await self._one("metrics", self._exporter)
        await self._one("dashboard", self._dashboard)
        self._found(cluster_checks.check_share(found))
        self._found(skip("move", "not tried: a restore waits for restore.minAgeS, by default 60 s"))

    async def _read(self) -> list[Raw]:
        """Read nodes and PriorityClasses; returns the pods."""
        try:
            pods = await self._listed("/api/v1/pods")
            self._hosts = hosts(await self._listed("/api/v1/nodes"), pods, self._options.scheduler)
            classes = cluster_checks.priorities(await self._listed(PRIORITY_CLASSES))
        except (ApiError, NotReached) as error:
            self._found(_refused("read", error))
            raise _Ended(f"not read: {error}") from error
        name = self._trial.namespace
        self._levels = tuple(one for one in classes if one.name != name)
        return pods

    def result(self) -> Result:
        """What was found."""
        return Result(
            findings=tuple(self._findings),
            nodes=tuple(
                NodeSummary(one.name, one.kind, one.capacity, one.replicas, one.is_simulated)
                for one in self._hosts
            ),
            priorities=self._levels,
            seconds={what: tuple(found) for what, found in self._trial.seconds.items()},
            metrics=self._metrics,
            ended_by=self.ended_by,
        )

    async def remove(self) -> None:
        """Remove the namespace with all its pods, and the PriorityClass."""
        name = self._trial.namespace
        try:
            is_gone = await self._trial.end()
        except (ApiError, Unreachable) as error:
            left = " ".join(self._trial.left)
            if left:
                self._found(fail("cleanup", f"{left} stays: {error}", f"kubectl delete {left}"))
                return
            is_gone = False
        if not self.has_begun:
            return
        if is_gone:
            self._found(ok("cleanup", f"namespace {name} removed"))
        else:
            advice = f"kubectl get namespace {name} -o yaml"
            self._found(warn("cleanup", f"namespace {name} is still terminating", advice))

    async def _one(self, about: str, check: Check) -> None:
        left = self._ends - time.monotonic()
        if left <= 0:
            self._found(skip(about, f"not tried: {self._options.total_s:g} s are over"))
            return
        try:
            async with asyncio.timeout(left) as self._limit:
                self._found(await check())
                await self._trial.clear()
        except TimeoutError:
            self._found(skip(about, f"not finished: {self._options.total_s:g} s are over"))
        except (ApiError, NotReached) as error:
            self._found(_refused(about, error))
        except Unreachable as error:
            says = f"the API server does not answer: {error}"
            self._found(fail(about, says, "run gpuctl verify again"))
            raise _Ended(says) from error

    def _pulled(self, pod: str, why: str, seconds: float) -> None:
        """A container waits for its image: that does not count."""
        self._ends += seconds
        if self._limit is not None and (when := self._limit.when()) is not None:
            self._limit.reschedule(when + seconds)
        if pod not in self._noted:
            self._noted.add(pod)
            self._note(f"{pod}: waits for image {self._options.image} ({why})")

    def _found(self, finding: Finding) -> None:
        self._findings.append(finding)
        self._say(finding)

    async def _install(self) -> Finding:
        leader = await cluster_access.leader_pod(self._trial.client, self._options.access)
        access = self._options.access
        lease = f"Lease {access.lease_namespace}/{access.lease_name}"
        if leader is None:
            return fail("install", f"{lease} has no holder", "docs/install.md; gpuctl doctor")
        return ok("install", f"{leader} leads by {lease}")

    async def _exporter(self) -> Finding:
        source, text = await self._scrape()
        self._metrics = {} if text is None else cluster_checks.series(text)
        return cluster_checks.check_metrics(None if text is None else self._metrics, source)

    async def _scrape(self) -> tuple[str, str | None]:
        """The exporter that was read, and its metrics; None without one."""
        if url := self._options.metrics_url:
            async with cluster_access.server(url) as server:
                with contextlib.suppress(NotReached):
                    content = await cluster_access.ask(server, "", {}, SCRAPE_S)
                    return url, content.decode(errors="replace")
            return url, ""
        found = await list_exporters(self._trial.client)
        if not found:
            return "", None
        return str(found[0]), await scrape(self._trial.client, found[0])

    async def _dashboard(self) -> Finding:
        path = "/api/v1/configmaps"
        found = await self._listed(path, labelSelector="grafana_dashboard")
        found += await self._listed(path, fieldSelector="metadata.name=gpu-dashboard")
        return cluster_checks.check_dashboard(found)

    async def _listed(self, path: str, **params: str) -> list[Raw]:
        """All objects of a kind."""
        items: list[Raw] = []
        try:
            async for page in paged_list.pages(self._trial.client, path, params, PAGE):
                items += [msgspec.json.decode(item) for item in page.items or ()]
        except paged_list.Unreadable as error:
            raise NotReached(f"the API server: {error}") from error
        return items


def _refused(about: str, error: ApiError | NotReached) -> Finding:
    said = error.message if isinstance(error, ApiError) else str(error)
    return fail(about, f"refused: {said}", "run this with the rights of an administrator")
