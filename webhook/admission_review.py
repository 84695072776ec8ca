"""Decodes and encodes AdmissionReviews; the response has the version of the request.

The webhook decides only about the creation of pods. Other requests that a registration may send
(updates, deletions, subresources, other kinds) are allowed unchanged: after creation a patch could
only change immutable fields.
"""

from __future__ import annotations

import base64
from typing import Any, Final, Literal

import msgspec

from webhook.mutate.pod_draft import Outcome
from webhook.mutate.raw_pod import RawPod

Version = Literal["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]

_ALLOWED: Final = Outcome()
_SHOWN_MAX: Final = 200


class Malformed(ValueError):
    """A body that is not an AdmissionReview; the message is one line for the client."""


class _Resource(msgspec.Struct, frozen=True):
    group: str = ""
    resource: str = ""


class ReviewRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of an admission request that the webhook reads."""

    uid: str
    operation: str = ""
    namespace: str = ""
    sub_resource: str = ""
    resource: _Resource = _Resource()
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """The envelope of a request."""

    api_version: Version
    kind: Literal["AdmissionReview"]
    request: ReviewRequest


_REVIEW: Final = msgspec.json.Decoder(Review)
_ANY: Final = msgspec.json.Decoder()


def decode(body: bytes) -> Review:
    """Read a request's body, or raise :class:`Malformed`."""
    try:
        return _REVIEW.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"not an AdmissionReview: {str(error)[:_SHOWN_MAX]}") from error
    except RecursionError as error:
        raise Malformed("not an AdmissionReview: nested too deeply") from error


def new_pod(review: Review) -> RawPod | None:
    """The pod of a CREATE request; None for every other request."""
    question = review.request
    is_pod = (question.resource.group, question.resource.resource) == ("", "pods")
    if question.operation != "CREATE" or not is_pod or question.sub_resource:
        return None
    try:
        pod = _ANY.decode(question.object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed("the object of the request cannot be read as JSON") from error
    return pod if isinstance(pod, dict) else None


def encode(review: Review, outcome: Outcome = _ALLOWED) -> bytes:
    """The response: the request's version and uid, and the decision."""
    response: dict[str, Any] = {"uid": review.request.uid, "allowed": outcome.denial is None}
    if outcome.denial is not None:
        response["status"] = {
            "code": outcome.denial.code,
            "message": outcome.denial.message,
        }
    elif outcome.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(outcome.patch)).decode("ascii")
    if outcome.warnings:
        response["warnings"] = outcome.warnings
    if outcome.audit:
        response["auditAnnotations"] = outcome.audit
    return msgspec.json.encode(
        {"apiVersion": review.api_version, "kind": "AdmissionReview", "response": response}
    )
