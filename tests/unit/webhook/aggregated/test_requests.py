"""What the API server authorised is exactly what is read from the path."""

from __future__ import annotations

import pytest

from webhook.aggregated.requests import (
    Refused,
    Wanted,
    discovery_path,
    negotiate,
    parse,
)

BASE = "/apis/decisions.gpu-scheduler.io/v1alpha1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def refusal(path: str, query: str = "", accept: str = "") -> int:
    """The code of the Status."""
    with pytest.raises(Refused) as caught:
        parse(path, query, accept)
    return caught.value.code


@pytest.mark.parametrize(
    ("path", "query", "accept", "wanted"),
    [
        pytest.param("", "", "", Wanted("team", "", "json", "Metadata"), id="list"),
        pytest.param("/web-0", "", "*/*", Wanted("team", "web-0", "json", "Metadata"), id="get"),
        pytest.param(
            "/web.0",
            "timeout=1s",
            KUBECTL,
            Wanted("team", "web.0", "table", "Metadata"),
            id="table",
        ),
        pytest.param(
            "",
            "limit=500&watch=false&includeObject=Object",
            TABLE,
            Wanted("team", "", "table", "Object"),
            id="objects",
        ),
    ],
)
def test_decisions_of_the_namespace_in_the_path_are_wanted(
    path: str, query: str, accept: str, wanted: Wanted
) -> None:
    assert parse(f"{BASE}/namespaces/team/decisions{path}", query, accept) == wanted


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/namespaces/a/../b/decisions", id="dots"),
        pytest.param("/namespaces/a%2F..%2Fb/decisions", id="escaped"),
        pytest.param("/namespaces/%62/decisions", id="escaped-letter"),
        pytest.param("/namespaces//decisions", id="no-namespace"),
        pytest.param("/namespaces/a//decisions", id="empty-segment"),
        pytest.param("//namespaces/a/decisions", id="two-slashes"),
        pytest.param("/namespaces/a/decisions/", id="trailing-slash"),
        pytest.param("/namespaces/a/decisions/p/status", id="subresource"),
        pytest.param("/namespaces/a/decisions/..", id="dots-as-a-name"),
        pytest.param("/namespaces/a;x=b/decisions", id="semicolon"),
        pytest.param("/namespaces/a/decisions\n", id="newline"),
        pytest.param("/namespaces/A/decisions", id="upper-case"),
        pytest.param("/namespaces/a/pods", id="another-resource"),
        pytest.param("/namespaces/a", id="namespace"),
        pytest.param("/../v1/namespaces/a/decisions", id="another-version"),
    ],
)
def test_path_with_another_reading_is_not_found(path: str) -> None:
    assert refusal(BASE + path) == 404


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/healthz", "/", "/metrics"])
def test_other_paths_are_not_found(path: str) -> None:
    assert refusal(path) == 404


@pytest.mark.parametrize(
    ("path", "query"),
    [
        pytest.param("/namespaces/a/decisions", "watch=true", id="watch"),
        pytest.param("/namespaces/a/decisions", "limit=1&watch=1&timeoutSeconds=9", id="watch-1"),
        pytest.param("/namespaces/a/decisions/p", "watch=", id="watch-empty"),
        pytest.param("/namespaces/a/decisions", "watch=true&watch=false", id="watch-first"),
        pytest.param("/namespaces/a/decisions", "watch=false&watch=true", id="watch-last"),
        pytest.param("/watch/namespaces/a/decisions", "", id="old-watch"),
        pytest.param("/watch/namespaces/a/decisions/p", "", id="old-watch-of-one"),
        pytest.param("/decisions", "", id="all-namespaces"),
        pytest.param("/watch/decisions", "", id="old-watch-of-all"),
    ],
)
def test_watches_and_whole_clusters_are_not_allowed(path: str, query: str) -> None:
    assert refusal(BASE + path, query) == 405


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("labelSelector=a%3Db", 400, id="labels"),
        pytest.param("fieldSelector=metadata.name%3Dp", 400, id="fields"),
        pytest.param("fieldSelector=metadata.name%3Dp&fieldSelector=", 400, id="first-field"),
        pytest.param("includeObject=All", 400, id="include"),
        pytest.param("a=" + "b" * 3000, 400, id="long"),
        pytest.param("&".join(f"a{n}=b" for n in range(40)), 400, id="many"),
    ],
)
def test_unsupported_queries_are_refused(query: str, code: int) -> None:
    assert refusal(f"{BASE}/namespaces/a/decisions", query) == code


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        pytest.param("", "json", id="nothing"),
        pytest.param("application/json", "json", id="json"),
        pytest.param(f"{PROTOBUF}, application/json", "json", id="protobuf-first"),
        pytest.param(f"{V2},{V2BETA1},application/json", "json", id="discovery-falls-back"),
        pytest.param("application/json;q=0.5", "json", id="quality"),
        pytest.param(KUBECTL, "table", id="kubectl"),
    ],
)
def test_first_acceptable_form_is_chosen(accept: str, form: str) -> None:
    assert negotiate(accept) == form


@pytest.mark.parametrize("accept", [PROTOBUF, f"{V2},{V2BETA1}", "text/html"])
def test_other_forms_are_not_acceptable(accept: str) -> None:
    """The aggregator takes 406 as: read the discovery documents of the group."""
    with pytest.raises(Refused) as caught:
        negotiate(accept)
    assert caught.value.code == 406


def test_discovery_has_three_documents() -> None:
    group = "/apis/decisions.gpu-scheduler.io"
    found = [discovery_path(path) for path in ("/apis", "/apis/", group, BASE, f"{BASE}/", "/api")]

    assert found == ["groups", "groups", "group", "resources", "resources", None]
