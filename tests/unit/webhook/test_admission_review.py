"""AdmissionReview: every shape in which a request may come, and the answer's."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.unit.webhook.pods import pod
from tests.unit.webhook.reviews import POD, body
from webhook.admission_review import Malformed, decode, encode, new_pod
from webhook.mutate.pod_draft import Denial, Outcome


@pytest.mark.contract("S2-13", "S0-B8")
@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_the_answer_has_the_requests_version_and_uid(version: str) -> None:
    """Both versions that the seeds registered."""
    answer = json.loads(encode(decode(body(version))))

    assert answer == {
        "apiVersion": version,
        "kind": "AdmissionReview",
        "response": {"uid": "705ab4f5", "allowed": True},
    }


@pytest.mark.contract("S2-13")
def test_a_patch_travels_as_base64_json_patch() -> None:
    """With warnings and audit annotations beside it."""
    patch = [{"op": "add", "path": "/a", "value": "\u00fc"}]
    outcome = Outcome(patch=patch, warnings=("careful",), audit={"k": "v"})

    response = json.loads(encode(decode(body()), outcome))["response"]

    assert json.loads(base64.b64decode(response.pop("patch"))) == patch
    assert response == {
        "uid": "705ab4f5",
        "allowed": True,
        "patchType": "JSONPatch",
        "warnings": ["careful"],
        "auditAnnotations": {"k": "v"},
    }


@pytest.mark.contract("S0-B8")
def test_a_denial_carries_uid_code_and_message() -> None:
    """So that the user reads a reason and not an internal error."""
    response = json.loads(encode(decode(body()), Outcome(denial=Denial(400, "why"))))["response"]

    assert response == {
        "uid": "705ab4f5",
        "allowed": False,
        "status": {"code": 400, "message": "why"},
    }


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"operation": "UPDATE"}, id="update"),
        pytest.param({"operation": "UPDATE", "subResource": "ephemeralcontainers"}, id="debug"),
        pytest.param({"operation": "DELETE", "object": None}, id="delete"),
        pytest.param({"operation": "CONNECT", "subResource": "exec"}, id="exec"),
        pytest.param({"subResource": "binding", "object": {"kind": "Binding"}}, id="binding"),
        pytest.param({"resource": {**POD, "resource": "services"}}, id="other-kind"),
        pytest.param({"resource": {**POD, "group": "x.example"}}, id="pods-of-another-group"),
        pytest.param({"resource": {}}, id="no-resource"),
        pytest.param({"object": None}, id="null-object"),
        pytest.param({"object": []}, id="odd-object"),
    ],
)
def test_only_the_creation_of_a_pod_is_looked_at(changes: dict[str, Any]) -> None:
    """Everything else is allowed as it is."""
    review = decode(body(**changes))

    assert new_pod(review) is None
    assert json.loads(encode(review))["response"] == {"uid": "705ab4f5", "allowed": True}


def test_the_pod_is_read_with_every_field() -> None:
    """Also those of a newer API."""
    sent = pod(futureField={"x": [1.5, None, "\u00fc"]})

    assert new_pod(decode(body(object=sent, dryRun=None))) == sent


@pytest.mark.contract("S0-B8")
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"not json", id="not-json"),
        pytest.param(b"\xff\xfe", id="not-utf-8"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"{}", id="no-fields"),
        pytest.param(body().replace(b"AdmissionReview", b"Pod"), id="other-kind"),
        pytest.param(body("admission.k8s.io/v2"), id="unknown-version"),
        pytest.param(body().replace(b'"uid": "705ab4f5"', b'"uid": 7'), id="odd-uid"),
        pytest.param(body()[:-2], id="cut-off"),
        pytest.param(b"[" * 2_000_000, id="nested-list"),
        pytest.param(b'{"request":' + b"[" * 2_000_000, id="nested-request"),
        pytest.param(b'{"a":' * 500_000, id="nested-object"),
    ],
)
def test_a_body_that_is_no_review_is_refused_with_one_line(content: bytes) -> None:
    """And never by a crash or a stack trace."""
    with pytest.raises(Malformed) as caught:
        decode(content)

    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_an_object_that_is_no_utf_8_is_refused_like_any_other_bytes() -> None:
    content = body(object="OBJECT").replace(b'"OBJECT"', b'{"metadata":{"name":"\xff\xfe"}}')

    with pytest.raises(Malformed, match="cannot be read as JSON"):
        new_pod(decode(content))


def test_an_object_nested_without_end_is_refused() -> None:
    """Reading it must not take the process down."""
    depth = 100_000
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    content = body(object="OBJECT").replace(b'"OBJECT"', deep)

    with pytest.raises(Malformed):
        new_pod(decode(content))
