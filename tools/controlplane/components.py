"""The programs of one control plane: started in order, polled until ready, stopped in reverse.

There are no fixed waits: a program is ready when its health check succeeds. If it ends before that,
the error contains the end of its log.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tools.controlplane import commands, process
from tools.controlplane.client import wait_until
from tools.controlplane.commands import API_SERVER, START_ORDER
from tools.controlplane.errors import ControlPlaneError, ProcessDied
from tools.controlplane.identity import Identity
from tools.controlplane.layout import Layout, Options, write_state

READY_S = 90.0
PROBE_S = 5.0
#: The grace period. The API server would wait a minute for open watches; its acknowledged writes
#: are in etcd, so it can be killed.
STOP_S = dict.fromkeys(START_ORDER, process.PATIENCE_S) | {API_SERVER: 2.0}


class Components:
    """The running programs by name."""

    def __init__(
        self, layout: Layout, options: Options, admin: Identity, locate: Callable[[str], Path]
    ) -> None:
        self._layout = layout
        self._options = options
        self._admin = admin
        self._locate = locate
        self._running: dict[str, process.Running] = {}

    def adopt(self, pids: Mapping[str, int]) -> None:
        """Adopt programs that another process started."""
        for name, pid in pids.items():
            self._running[name] = process.Running(name, pid, str(self._layout.directory))

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the running programs."""
        return {name: each.pid for name, each in self._running.items() if each.is_alive()}

    def start(self, names: Iterable[str], flags: Iterable[str] = ()) -> None:
        """Start programs and return when all of them are ready."""
        started = [self._spawn(name, tuple(flags)) for name in names]
        for each in started:
            self._wait_ready(each)

    def _spawn(self, name: str, flags: tuple[str, ...]) -> process.Running:
        if name not in START_ORDER:
            known = ", ".join(START_ORDER)
            raise ControlPlaneError(f"{name}: not a program of the control plane; one of: {known}")
        if name in self.pids:
            raise ControlPlaneError(f"{name}: it already runs (process {self.pids[name]})")
        command = commands.command(name, self._locate(name), self._layout, self._options)
        self._running[name] = process.start(
            name,
            [*command, *flags],
            log=self._layout.log(name),
            home=self._layout.directory,
            dies_with_parent=not self._options.detached,
        )
        self._write_down()
        return self._running[name]

    def _wait_ready(self, program: process.Running) -> None:
        log = self._layout.log(program.name)

        def check() -> bool:
            if not program.is_alive():
                raise ProcessDied(program.name, process.tail(log), str(log))
            return self.is_ready(program.name)

        try:
            wait_until(check, what=f"{program.name} to be ready", timeout_s=READY_S)
        except ProcessDied:
            raise
        except ControlPlaneError as error:
            raise ControlPlaneError(f"{error}; the end of {log}:\n{process.tail(log)}") from error

    def is_ready(self, name: str) -> bool:
        """Whether a program's health check answers with 200."""
        return is_healthy(commands.health_url(name, self._layout), self._admin)

    def stop(self, name: str, *, crash: bool = False) -> None:
        """Stop one program and wait for its end; with ``crash`` by SIGKILL."""
        if name not in self._running:
            raise ControlPlaneError(f"{name}: it was not started")
        program = self._running[name]
        if crash:
            program.kill()
        else:
            program.stop(STOP_S[name])
        del self._running[name]
        self._write_down()

    def close(self) -> None:
        """Stop all programs in reverse order of the start."""
        for name in reversed(START_ORDER):
            if name in self._running:
                self.stop(name)

    def _write_down(self) -> None:
        write_state(self._layout, self._options, self.pids)


def is_healthy(url: str, identity: Identity) -> bool:
    """Whether a health check succeeds; a refused connection counts as no."""
    address = urlsplit(url)
    host, port = address.hostname or "", address.port
    connection: http.client.HTTPConnection
    if address.scheme == "https":
        context = ssl.create_default_context(cafile=str(identity.authority))
        if identity.certificate is not None:
            context.load_cert_chain(*identity.certificate)
        connection = http.client.HTTPSConnection(host, port, context=context, timeout=PROBE_S)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=PROBE_S)
    try:
        connection.request("GET", address.path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def write_audit_policy(layout: Layout) -> None:
    """Write the API server's audit policy."""
    layout.audit_policy.write_text(json.dumps(commands.AUDIT_POLICY))
