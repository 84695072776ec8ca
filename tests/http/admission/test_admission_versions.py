"""A scheduler and webhooks of other versions: each uses the fields that both know."""

from __future__ import annotations

import msgspec
from structlog.testing import capture_logs

from scheduler.model.admission import VERSION
from tests.http.admission.test_admission_server import Asking, asking

__all__ = ["asking"]

#: The query of a webhook of commit 8db2d48, and the fields that it read of the answer.
OLD_QUERY = (
    b'{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","dryRun":false,"namespace":"team",'
    b'"scope":"ours","pod":{"metadata":{"name":"web-0","namespace":"team"},"spec":{"schedulerName":'
    b'"gpu-scheduler","containers":[{"name":"app","resources":{"limits":{"nvidia.com/mig-2g.20gb":'
    b'"1"},"requests":{"nvidia.com/mig-2g.20gb":"1"}}}]}}}'
)
OLD_FIELDS = {
    *("rewrites", "denied", "reservation", "annotate", "knownReservation"),
    *("nodeKinds", "warnings", "move", "where"),
}


async def test_query_of_an_older_webhook_is_answered_and_logged_once(asking: Asking) -> None:
    with capture_logs() as lines:
        for _ in range(2):
            status, body = await asking.post(OLD_QUERY)
    answer = msgspec.json.decode(body)

    assert status == 200
    assert set(answer) >= OLD_FIELDS
    assert (answer["reservation"][:2], answer["version"]) == ("r-", VERSION)
    met = [line for line in lines if line["event"] == "webhook of another version"]
    assert [(line["version"], line["own"]) for line in met] == [(1, VERSION)]


async def test_query_of_a_newer_webhook_is_answered_without_its_new_fields(
    asking: Asking,
) -> None:
    newer = b'{"version":7,"ofTomorrow":[1],' + OLD_QUERY[1:]

    status, body = await asking.post(newer)

    assert (status, msgspec.json.decode(body)["version"]) == (200, VERSION)
