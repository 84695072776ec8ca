"""Which programs may ask the decisions API, and the form of its refusals.

It listens on the loopback interface only and is reached through ``kubectl port-forward``, so RBAC
guards it. A foreign page in a browser on this machine must not reach it: other Host names (DNS
rebinding) and foreign Origins are refused.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
from aiohttp import web

from scheduler.config import LOOPBACK

PATHS: Final = "/decisions /decisions/NAMESPACE/POD /capacity /snapshot /leader /dashboard/"
_OWN_HOST: Final = re.compile(rf"(?:{'|'.join(map(re.escape, LOOPBACK))})(?::[0-9]{{1,5}})?")

#: The pages of the dashboard: no data, no events.
_PAGE: Final = re.compile(r"/dashboard(?:/(?!data/|events\Z)[A-Za-z0-9._/-]*)?")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Allow only local programs, and pages of this server."""
    host = request.headers.get("Host", "")
    if not _OWN_HOST.fullmatch(host):
        raise refused(web.HTTPForbidden, "the Host is not localhost; use kubectl port-forward")
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{host}":
        raise refused(web.HTTPForbidden, "cross-origin requests are refused")
    is_own = request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
    if not is_own and not _is_link_to_page(request):
        raise refused(web.HTTPForbidden, "cross-origin requests are refused")
    try:
        response = await handler(request)
    except web.HTTPNotFound as error:
        if error.content_type == "application/json":
            raise
        raise refused(web.HTTPNotFound, f"unknown path; try {PATHS}") from None
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    return response


def _is_link_to_page(request: web.Request) -> bool:
    """Whether a link of another page leads to the dashboard's, which has no data in it.

    The page then asks for its data itself, and the page with the link sees neither.
    """
    get = request.headers.get
    is_top = get("Sec-Fetch-Mode") == "navigate" and get("Sec-Fetch-Dest") == "document"
    return is_top and request.method == "GET" and _PAGE.fullmatch(request.path) is not None


def refused(
    kind: type[web.HTTPError], text: str, headers: Mapping[str, str] | None = None
) -> web.HTTPError:
    """An error in the format of the API server's, so that one client reads both."""
    status = {"kind": "Status", "status": "Failure", "code": kind.status_code, "message": text}
    body = msgspec.json.encode(status).decode()
    more = {"X-Content-Type-Options": "nosniff", **(headers or {})}
    return kind(text=body, content_type="application/json", headers=more)
