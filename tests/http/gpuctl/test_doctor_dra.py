"""How the doctor reads DeviceTaintRules."""

from __future__ import annotations

import pytest

from gpuctl.doctor.collect_dra import taint_rules
from gpuctl.doctor.facts import TaintRules
from gpuctl.doctor.reader import Reader
from scheduler.watch.client import ApiError, Client
from tests.dra import rule_json
from tests.http.fakeapi import FakeApi, failure, listed, reply

GROUP = "/apis/resource.k8s.io"


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
async def test_the_newest_served_version_is_read(
    api: FakeApi, client: Client, version: str
) -> None:
    rules = [
        rule_json("read", driver="a"),
        rule_json("by-class", deviceClassName="gpu"),
        {**rule_json("by-cel"), "spec": {"deviceSelector": {"selectors": []}}},
        {**rule_json("no-selector"), "spec": {}},
    ]
    api.script(f"GET {GROUP}/{version}/devicetaintrules", reply(listed("7", *rules)))

    assert await taint_rules(Reader(client)) == TaintRules(version, ("by-class", "by-cel"))


async def test_a_server_without_rules_has_no_version(api: FakeApi, client: Client) -> None:
    assert await taint_rules(Reader(client)) == TaintRules("")
    assert len(api.seen) == 3


async def test_a_missing_right_is_no_missing_version(api: FakeApi, client: Client) -> None:
    api.script(f"GET {GROUP}/v1/devicetaintrules", failure(403, "Forbidden"))

    with pytest.raises(ApiError):
        await taint_rules(Reader(client))
