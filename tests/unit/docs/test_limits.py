"""docs/security.md tells the limits of the ports as they are."""

from __future__ import annotations

from scheduler.httpserver import limits
from scheduler.httpserver.limits import MIB, Limits
from tests.unit.docs.test_security import PAGE, section


def row(port: str, of: Limits) -> list[str]:
    """The cells of a listener."""
    bodies = (f"{size // MIB} MiB" for size in (of.body, of.bodies))
    return [port, str(of.connections), str(of.per_address), *bodies]


def test_port_limits_table_equals_the_code() -> None:
    assert section("What outsiders can do to the ports") == [
        row("8443, reviews", limits.REVIEWS),
        row("8445, decisions for users, if enabled", limits.AGGREGATED),
        row("the webhook's socket", limits.SOCKET),
        row("8444, replicas", limits.REPLICAS),
        row("8080, probes and metrics", limits.HEALTH),
        row("8090, decisions, loopback", limits.DECISIONS),
    ]


def test_port_timeouts_equal_the_code() -> None:
    every = Limits(connections=1, per_address=1)
    seconds = {every.handshake_s, every.head_s, every.body_s, every.unread_s}

    assert seconds == {10.0}
    assert f"{every.idle_s:g} s without a request" in PAGE
    assert f"a head ({limits.HEAD_MAX // limits.KIB} KiB)" in PAGE
    assert f"at most {limits.FILES_WANTED:,}" in PAGE
    assert f"One log line in {limits.LOG_EVERY_S:g} s" in PAGE
