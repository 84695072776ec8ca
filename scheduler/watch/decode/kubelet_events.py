"""Kubelets' events about rejected pods: the only trace of a deleted one.

A StatefulSet's controller deletes a failed pod at once, a Job's and the garbage collection later.
Its event stays for an hour. Any user with the right to write events in a namespace can write such
an event.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.timestamps import epoch
from scheduler.state.breakers.kubelet_rejection import OUT_OF, UNEXPECTED, is_rejection
from scheduler.watch.client import Client
from scheduler.watch.decode.api_types import ListMeta

EVENTS: Final = "/apis/events.k8s.io/v1/"
#: Reasons to list at start: the API server can select one reason at a time.
REASONS: Final = (UNEXPECTED, OUT_OF + well_known.GPU)
#: Events in one page, and pages for each reason.
PAGE: Final = 500
PAGES_MAX: Final = 2
OF_ONE_POD: Final = 20
KUBELET: Final = "kubelet"


class _Regarding(msgspec.Struct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Source(msgspec.Struct, frozen=True):
    component: str = ""
    host: str = ""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    creation_timestamp: str | None = None


class KubeletEvent(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of an event that are read."""

    metadata: _Meta = _Meta()
    reason: str = ""
    note: str = ""
    regarding: _Regarding = _Regarding()
    event_time: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_source: _Source = _Source()
    reporting_controller: str = ""
    reporting_instance: str = ""

    @property
    def node_name(self) -> str:
        """The kubelet's node; empty if the event is not a kubelet's."""
        source = self.deprecated_source
        if KUBELET not in (self.reporting_controller, source.component):
            return ""
        return source.host or self.reporting_instance

    @property
    def is_rejection(self) -> bool:
        """Whether a kubelet reports the rejection of a pod."""
        return self.regarding.kind == "Pod" and bool(self.node_name) and is_rejection(self.reason)

    def at(self) -> float | None:
        """The time of the event, in seconds since 1970."""
        texts = (self.deprecated_last_timestamp, self.event_time, self.metadata.creation_timestamp)
        times = (epoch(text) for text in texts if text)
        return next((at for at in times if at is not None), None)


class _Page(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[KubeletEvent, ...] | None = None


_PAGE = msgspec.json.Decoder(_Page)


async def about_pod(client: Client, namespace: str, uid: str) -> KubeletEvent | None:
    """The kubelet's event about the rejection of this pod; raises as the client does."""
    params = {"fieldSelector": f"regarding.uid={uid}", "limit": str(OF_ONE_POD)}
    path = f"{EVENTS}namespaces/{namespace}/events"
    page = _PAGE.decode(await client.request("GET", path, params=params))
    return next((one for one in page.items or () if one.is_rejection), None)


async def of_all(client: Client) -> list[KubeletEvent]:
    """The rejections of the last hour; raises as the client does."""
    found: list[KubeletEvent] = []
    for reason in REASONS:
        params = {"fieldSelector": f"reason={reason},regarding.kind=Pod", "limit": str(PAGE)}
        for _ in range(PAGES_MAX):
            page = _PAGE.decode(await client.request("GET", f"{EVENTS}events", params=params))
            found += [one for one in page.items or () if one.is_rejection]
            if not page.metadata.token:
                break
            params["continue"] = page.metadata.token
    return found
