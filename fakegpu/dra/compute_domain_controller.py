"""Reconciles compute domains: creates and deletes their templates, and writes their readiness.

Each change reconciles every domain; there are few.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from fakegpu import api_types, names
from fakegpu.api_types import News
from fakegpu.dra import domains
from fakegpu.dra.api_types import CLAIMS, GROUP, Claim, read_claim
from fakegpu.dra.domains import Domain
from fakegpu.process import news_within
from fakegpu.store import apply
from scheduler.watch.client import MERGE_PATCH, ApiError, Client, Unreachable
from scheduler.watch.reflector import WatchSource

LOOK_S: Final = 30.0
RETRY_S: Final = 2.0

log = structlog.get_logger("fakegpu")


class OfTemplates(msgspec.Struct, frozen=True):
    """Updates of templates: namespace/name -> the uid of its domain."""

    news: News[str]


class OfDomains(msgspec.Struct, frozen=True):
    """Updates of domains."""

    news: News[Domain]


class OfClaims(msgspec.Struct, frozen=True):
    """Updates of claims of domains."""

    news: News[Claim]


class _Owner(msgspec.Struct, frozen=True):
    uid: str = ""


class _Owned(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    owner_references: tuple[_Owner, ...] = ()


class _Template(msgspec.Struct, frozen=True):
    metadata: _Owned


def _template(content: bytes) -> tuple[str, str | None]:
    meta = msgspec.json.decode(content, type=_Template).metadata
    owners = [one.uid for one in meta.owner_references]
    return f"{meta.namespace}/{meta.name}", owners[0] if owners else ""


def _claim(content: bytes) -> tuple[str, Claim | None]:
    found = read_claim(content)
    return found.metadata.uid, found


class ComputeDomainController:
    """Works while ``leads``; ``emit`` takes the updates of ``sources``."""

    def __init__(self, client: Client, leads: Callable[[], bool]) -> None:
        self._client = client
        self._leads = leads
        self._domains: dict[str, Domain] = {}
        self._templates: dict[str, str] = {}
        self._claims: dict[str, Claim] = {}
        self._news = asyncio.Event()

    def sources(self) -> list[WatchSource[Any]]:
        """The watched kinds; the CRD may be missing for a while."""
        kinds = api_types.source(
            "domains", domains.DOMAINS, domains.domain, OfDomains, is_optional=True
        )
        claims = api_types.source("domain claims", CLAIMS, _claim, OfClaims, is_optional=True)
        made = api_types.source(
            "templates", domains.TEMPLATES, _template, OfTemplates, is_optional=True
        )
        return [kinds, made, claims]

    def emit(self, event: OfDomains | OfTemplates | OfClaims) -> None:
        """Fold an event."""
        match event:
            case OfDomains(news):
                apply(self._domains, news)
            case OfTemplates(news):
                apply(self._templates, news)
            case OfClaims(news):
                apply(self._claims, news)
        self._news.set()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        while True:
            pause_s = LOOK_S if self._leads() else RETRY_S
            for one in list(self._domains.values()) if self._leads() else ():
                try:
                    await self._look(one)
                except (ApiError, Unreachable) as error:
                    log.warning("compute domain", name=one.metadata.name, problem=str(error))
                    pause_s = RETRY_S
            await news_within(self._news, pause_s)

    async def _look(self, one: Domain) -> None:
        meta = one.metadata
        path = f"{domains.GROUP}/namespaces/{meta.namespace}/computedomains/{meta.name}"
        is_kept = domains.FINALIZER in meta.finalizers
        owner = self._templates.get(f"{meta.namespace}/{one.template_name}")
        if one.is_going:
            if owner == meta.uid:
                await self._remove_template(one)
            if is_kept:
                kept = [name for name in meta.finalizers if name != domains.FINALIZER]
                await self._set_finalizers(path, one, kept)
            return
        if not is_kept:
            await self._set_finalizers(path, one, [*meta.finalizers, domains.FINALIZER])
        if owner is None:
            await self._client.request(
                "POST", _templates_of(meta.namespace), msgspec.json.encode(domains.template(one))
            )
        elif owner != meta.uid:
            log.warning(
                "compute domain: another owner has a template of this name",
                name=meta.name,
                template=f"{meta.namespace}/{one.template_name}",
            )
        wanted = domains.status(one, self._members(one))
        if wanted != one.status:
            await self._patch(f"{path}/status", {"status": wanted})

    def _members(self, one: Domain) -> list[str]:
        """The pools of the domain's claims, which are nodes."""
        mine = (
            claim
            for claim in self._claims.values()
            if claim.metadata.namespace == one.metadata.namespace
            and (claim.metadata.labels or {}).get(domains.CLAIM_LABEL) == one.metadata.name
        )
        return [r.pool for claim in mine for r in claim.results if r.driver == names.DOMAIN_DRIVER]

    async def _set_finalizers(self, path: str, one: Domain, finalizers: list[str]) -> None:
        # With the observed version: another controller's finalizer must not be lost.
        version = one.metadata.resource_version
        meta = {"resourceVersion": version, "finalizers": finalizers}
        await self._patch(path, {"metadata": meta})

    async def _patch(self, path: str, body: dict[str, Any]) -> None:
        content = msgspec.json.encode(body)
        try:
            await self._client.request("PATCH", path, content, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status not in (404, 409):  # deleted, or the watch will show the change
                raise

    async def _remove_template(self, one: Domain) -> None:
        path = f"{_templates_of(one.metadata.namespace)}/{one.template_name}"
        try:
            await self._client.request("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise


def _templates_of(namespace: str) -> str:
    return f"{GROUP}/namespaces/{namespace}/resourceclaimtemplates"
