"""What a request of the API server asks for: discovery, one decision or a namespace's. Pure.

The API server authorised the namespace and the name that it read from the path. A path that could
mean anything else to the two of us is rejected: names have no escapes, and no segment is empty.
"""

from __future__ import annotations

import re
from typing import Final, Literal, get_args
from urllib.parse import parse_qs

import msgspec

from scheduler.model.decisions.messages import GROUP, VERSION
from scheduler.model.limits import DECISIONS_QUERY_LENGTH_MAX

PARAMETERS_MAX: Final = 16

_NAMESPACE: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_POD: Final = r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?"
_BASE: Final = re.escape(f"/apis/{GROUP}/{VERSION}")
_DECISIONS: Final = re.compile(
    rf"{_BASE}/namespaces/(?P<namespace>{_NAMESPACE})/decisions(/(?P<pod>{_POD}))?", re.ASCII
)
#: The whole cluster's decisions, and watches in the old form: known, and not served.
_NOT_SERVED: Final = re.compile(
    rf"{_BASE}/(decisions|watch/(decisions|namespaces/{_NAMESPACE}/decisions(/{_POD})?))", re.ASCII
)
_JSON: Final = ("application/json", "application/*", "*/*")

Form = Literal["json", "table"]
Included = Literal["None", "Metadata", "Object"]

_INCLUDED: Final[dict[str, Included]] = {one: one for one in get_args(Included)}


class Refused(Exception):
    """A request that is not served, with the reason and the code of its Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class Wanted(msgspec.Struct, frozen=True):
    """A decision, or the decisions of a namespace if ``pod`` is empty."""

    namespace: str
    pod: str
    form: Form
    included: Included


def discovery_path(path: str) -> str | None:
    """Which discovery document a path means: ``groups``, ``group`` or ``resources``."""
    documents = {
        "/apis": "groups",
        f"/apis/{GROUP}": "group",
        f"/apis/{GROUP}/{VERSION}": "resources",
    }
    return documents.get(path.removesuffix("/"))


def parse(path: str, query: str, accept: str) -> Wanted:
    """What is wanted; :class:`Refused` for any other request."""
    if _NOT_SERVED.fullmatch(path):
        raise Refused(
            405, "MethodNotAllowed", "decisions are read in one namespace, and not watched"
        )
    found = _DECISIONS.fullmatch(path)
    if found is None:
        raise Refused(404, "NotFound", "the server could not find the requested resource")
    options = _options(query)
    if any(value.lower() not in ("false", "0") for value in options.get("watch", ())):
        raise Refused(405, "MethodNotAllowed", "decisions cannot be watched; get them again")
    for name in ("labelSelector", "fieldSelector"):
        if any(options.get(name, ())):
            raise Refused(400, "BadRequest", f"{name} is not supported for decisions")
    return Wanted(
        namespace=found["namespace"],
        pod=found["pod"] or "",
        form=negotiate(accept),
        included=_included(options.get("includeObject", ["Metadata"])[0]),
    )


def negotiate(accept: str) -> Form:
    """The first acceptable form of an answer: JSON, or a Table of meta.k8s.io.

    An API server that asks for aggregated discovery only gets 406, and then reads the resources.
    """
    for part in (accept or "*/*").split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        if kind not in _JSON:
            continue
        given = dict(word.partition("=")[::2] for word in parameters)
        if "as" not in given:
            return "json"
        if (given["as"], given.get("g"), given.get("v")) == ("Table", "meta.k8s.io", "v1"):
            return "table"
    raise Refused(406, "NotAcceptable", "only application/json is served, also as=Table (v1)")


def _options(query: str) -> dict[str, list[str]]:
    """All values of each parameter: the API server may have read another one than the last."""
    if len(query) > DECISIONS_QUERY_LENGTH_MAX:
        raise Refused(400, "BadRequest", "the query is too long")
    try:
        return parse_qs(query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError:
        raise Refused(400, "BadRequest", "the query has too many parameters") from None


def _included(text: str) -> Included:
    if text not in _INCLUDED:
        raise Refused(400, "BadRequest", "includeObject: expected None, Metadata or Object")
    return _INCLUDED[text]
