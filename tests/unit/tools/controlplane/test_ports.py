"""How ports are chosen."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.ports import FIRST_PORT, LAST_PORT, LOOPBACK, free_ports


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        yield listener


def test_ports_are_different_and_free() -> None:
    """Each can be listened on, all at once."""
    ports = free_ports(20)

    assert len(set(ports)) == 20
    assert all(FIRST_PORT <= port <= LAST_PORT for port in ports)
    for port in ports:
        with socket.socket() as listener:
            listener.bind((LOOPBACK, port))


def test_occupied_port_is_skipped(taken: socket.socket) -> None:
    """The next draw is taken instead, and a port drawn twice is given once."""
    first, second = free_ports(2)
    draws = iter([taken.getsockname()[1], first, first, second])

    assert free_ports(2, draw=lambda: next(draws)) == [first, second]


def test_no_free_port_is_an_error_that_names_the_range(taken: socket.socket) -> None:
    """It gives up instead of searching for ever."""
    with pytest.raises(ControlPlaneError, match="no 1 free ports between"):
        free_ports(1, draw=lambda: int(taken.getsockname()[1]))


def test_our_range_is_none_that_the_kernel_gives_to_clients() -> None:
    """A client's outgoing connection cannot take a server's port while that restarts."""
    words = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()

    assert int(words[0]) > LAST_PORT
