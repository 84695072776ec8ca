"""All checks in order, within one time limit, and the namespace removed at the end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

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
from gpuctl.verify.trial import PRIORITY_CLASSES, Trial
from scheduler.watch import paged_list
from scheduler.watch.client import ApiError, Client, Unreachable


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """``timeout_s`` bounds one wait, ``total_s`` the run without its cleanup."""

    access: Access
    scheduler: str
    namespace: str
    image: str
    metrics_url: str = ""
    timeout_s: float = 30.0
    total_s: float = 240.0


Check = Callable[[], Awaitable[Finding]]


async def verify(client: Client, options: Options, say: Callable[[Finding], None]) -> Result:
    """Run every check; ``say`` gets each finding at once. ApiError if no namespace can be made."""
    trial = Trial(
        client,
        options.namespace,
        scheduler=options.scheduler,
        image=options.image,
        timeout_s=options.timeout_s,
    )
    await trial.begin()
    run = _Run(trial, options, say)
    try:
        await run.checks()
    finally:
        # Also after an interrupt: nothing of the run stays.
        await run.remove()
    return run.result()


class _Run:
    """One run; what it read and found so far."""

    def __init__(self, trial: Trial, options: Options, say: Callable[[Finding], None]) -> None:
        self._trial = trial
        self._options = options
        self._say = say
        self._ends = time.monotonic() + options.total_s
        self._findings: list[Finding] = []
        self._hosts: tuple[Host, ...] = ()
        self._levels: tuple[PriorityLevel, ...] = ()
        self._metrics: dict[str, int] = {}

    async def checks(self) -> None:
        """Every check in order; later ones rely on nothing of earlier ones but what was read."""
        trial = self._trial
        pods = await self._listed("/api/v1/pods")
        self._hosts = hosts(await self._listed("/api/v1/nodes"), pods, self._options.scheduler)
        found = self._hosts
        classes = cluster_checks.priorities(await self._listed(PRIORITY_CLASSES))
        self._levels = tuple(one for one in classes if one.name != trial.namespace)
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
        await self._one("fallback", lambda: sharing.check_fallback(trial, found))
        await self._one("honours", lambda: placement.check_honours(trial, found))
        await self._one("metrics", self._exporter)
        await self._one("dashboard", self._dashboard)
        self._found(cluster_checks.check_share(found))
        self._found(skip("move", "not tried: a restore waits for restore.minAgeS, by default 60 s"))

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
        )

    async def remove(self) -> None:
        """Remove the namespace with all its pods."""
        name = self._trial.namespace
        try:
            is_gone = await self._trial.end()
        except (ApiError, Unreachable) as error:
            advice = f"kubectl delete namespace {name}"
            self._found(fail("cleanup", f"namespace {name} stays: {error}", advice))
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
            async with asyncio.timeout(left):
                self._found(await check())
                await self._trial.clear()
        except TimeoutError:
            self._found(skip(about, f"not finished: {self._options.total_s:g} s are over"))
        except ApiError as error:
            self._found(
                fail(
                    about,
                    f"refused: {error.message}",
                    "run this with the rights of an administrator",
                )
            )

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
