"""One Kubernetes control plane of real programs in one directory.

    etcd -> kube-apiserver -> kube-controller-manager, kube-scheduler (optional), kwok

``ControlPlane.start`` returns when all programs are ready. Leaving the ``with`` block stops them in
reverse order. If this process is killed, the kernel kills them. The control plane never uses the
user's clusters or kubeconfigs. It listens on the loopback interface; the API server's address is an
option.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from tools.controlplane.client import PATIENCE_S, Client
from tools.controlplane.commands import API_SERVER, CONTROLLER_MANAGER, ETCD, KWOK, START_ORDER
from tools.controlplane.components import Components, write_audit_policy
from tools.controlplane.credentials import ADMIN, Credentials
from tools.controlplane.errors import ControlPlaneError, ProcessDied
from tools.controlplane.layout import Layout, Options, Ports, read_state
from tools.controlplane.pki import Pair
from tools.controlplane.ports import LOOPBACK
from tools.controlplane.programs.binaries import ensure

DEFAULT_COMPONENTS: Final = frozenset({ETCD, API_SERVER, CONTROLLER_MANAGER})
START_ATTEMPTS_MAX: Final = 3


class ControlPlane:
    """A running control plane; made by ``start`` or, for one that already runs, by ``attach``."""

    def __init__(self, layout: Layout, options: Options, programs: Mapping[str, Path]) -> None:
        self.layout = layout
        self.options = options
        self._programs = dict(programs)
        layout.make()
        self._credentials = Credentials(layout)
        self._fleet = Components(layout, options, self._credentials.admin, self.program)

    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        components: Collection[str] = DEFAULT_COMPONENTS,
        kwok: bool = True,
        address: str = LOOPBACK,
        api_server_flags: Iterable[str] = (),
        flags: Mapping[str, Iterable[str]] | None = None,
        disable_admission: Iterable[str] = (),
        audit: bool = False,
        detached: bool = False,
    ) -> ControlPlane:
        """Start the wanted programs in an empty directory and return when all are ready.

        ``flags`` are more command line flags by program. A ``detached`` control plane outlives this
        process; ``attach`` finds it again.
        """
        if directory.exists() and any(directory.iterdir()):
            raise ControlPlaneError(f"{directory}: not empty; a control plane wants its own folder")
        wanted = wanted_programs(components, kwok=kwok)
        options = Options(
            address=address,
            api_server_flags=tuple(api_server_flags),
            flags={name: tuple(words) for name, words in (flags or {}).items()},
            disable_admission=tuple(disable_admission),
            audit=audit,
            detached=detached,
        )
        return cls._launch(directory.absolute(), options, wanted)

    @classmethod
    def _launch(cls, directory: Path, options: Options, wanted: tuple[str, ...]) -> ControlPlane:
        programs = ensure([*wanted, "kubectl"])
        for attempt in range(1, START_ATTEMPTS_MAX + 1):
            layout = Layout(directory, Ports.choose(), options.address)
            plane = cls(layout, options, programs)
            try:
                plane._begin(wanted)
            except ProcessDied as error:
                plane.close()
                if not error.is_port_clash or attempt == START_ATTEMPTS_MAX:
                    raise
                # etcd's data names the ports of the attempt that made it.
                shutil.rmtree(layout.etcd_data, ignore_errors=True)
            except BaseException:  # after an interrupt too, no program keeps running
                plane.close()
                raise
            else:
                return plane
        raise AssertionError("the last attempt returns or raises")

    @classmethod
    def attach(cls, directory: Path) -> ControlPlane:
        """Return the control plane that an earlier process started and left running."""
        layout, options, pids = read_state(directory.absolute())
        plane = cls(layout, options, {})
        plane._fleet.adopt(pids)
        return plane

    def _begin(self, wanted: tuple[str, ...]) -> None:
        self._credentials.found()
        if self.options.audit:
            write_audit_policy(self.layout)
        self._fleet.start([ETCD])
        self._fleet.start([API_SERVER])
        self._fleet.start([name for name in wanted if name not in {ETCD, API_SERVER}])
        if CONTROLLER_MANAGER in wanted:
            self.wait_for_service_account("default")

    def __enter__(self) -> ControlPlane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all programs in reverse order of the start; the files remain."""
        self._fleet.close()

    # --- properties ---------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address of the API server."""
        return self.layout.api_url

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig(ADMIN)

    @cached_property
    def client(self) -> Client:
        """The administrator's client; one, because reading its certificates takes longer than a
        request."""
        return Client(self._credentials.admin)

    @property
    def processes(self) -> dict[str, int]:
        """The process ids of the running programs."""
        return self._fleet.pids

    def is_ready(self, name: str) -> bool:
        """Whether a program's health check succeeds."""
        return self._fleet.is_ready(name)

    @property
    def audit_log(self) -> Path | None:
        """The API server's audit log, one JSON event per line, if it is enabled."""
        return self.layout.audit_log if self.options.audit else None

    def log(self, name: str) -> Path:
        """The file with a program's output."""
        return self.layout.log(name)

    def program(self, name: str) -> Path:
        """The path of a program, for example helm; it is built if missing."""
        if name not in self._programs:
            self._programs |= ensure([name])
        return self._programs[name]

    # --- programs ---------------------------------------------------------------------------

    def start_process(self, name: str, flags: Iterable[str] = ()) -> None:
        """Start a stopped program and wait until it is ready."""
        self._fleet.start([name], flags)

    def stop_process(self, name: str, *, crash: bool = False) -> None:
        """Stop a program and wait for its end; with ``crash`` by SIGKILL."""
        self._fleet.stop(name, crash=crash)

    def restart(self, name: str, flags: Iterable[str] = (), *, crash: bool = False) -> None:
        """Restart a program on the same port."""
        self.stop_process(name, crash=crash)
        self.start_process(name, flags)

    # --- users --------------------------------------------------------------------------------

    def kubeconfig_for(self, service_account: str, *, node: str = "") -> Path:
        """A kubeconfig of the account ``namespace/name``, of a pod on the node, valid for a day."""
        identity = self._credentials.service_account(service_account, node)
        path = self.layout.kubeconfig(f"serviceaccount-{service_account.replace('/', '.')}")
        return identity.write_kubeconfig(path)

    def client_for(self, service_account: str, *, node: str = "") -> Client:
        """Return a client of the ServiceAccount ``namespace/name``, of a pod on the node."""
        return Client(self._credentials.service_account(service_account, node))

    def kubeconfig_for_user(self, user: str, groups: Iterable[str] = ()) -> Path:
        """Return a kubeconfig with a client certificate for a user in these groups."""
        path = self.layout.kubeconfig(f"user-{user.replace(':', '-').replace('/', '-')}")
        return self._credentials.user(user, groups).write_kubeconfig(path)

    def client_for_user(self, user: str, groups: Iterable[str] = ()) -> Client:
        """Return a client with a client certificate for a user in these groups."""
        return Client(self._credentials.user(user, groups))

    @property
    def ca_certificate(self) -> Path:
        """The authority that signed the API server and every ``serving_certificate``."""
        return self._credentials.authority.files.certificate

    def serving_certificate(self, name: str, hosts: Iterable[str] = (LOOPBACK,)) -> Pair:
        """Return a serving certificate, say for a webhook."""
        return self._credentials.authority.server(name, hosts)

    def wait_for_service_account(self, namespace: str, name: str = "default") -> None:
        """Wait until a ServiceAccount exists; pods cannot be created before."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
        self.client.wait_for(
            path, lambda seen: seen is not None, what=f"ServiceAccount {namespace}/{name}"
        )

    def kubectl(
        self,
        *words: str,
        input: str | None = None,
        kubeconfig: Path | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> str:
        """Run kubectl and return its output; a failure raises kubectl's message."""
        done = subprocess.run(
            [str(self.program("kubectl")), f"--kubeconfig={kubeconfig or self.kubeconfig}", *words],
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env={"HOME": str(self.layout.directory), "PATH": "/usr/bin:/bin"},
            check=False,
        )
        if done.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout


def wanted_programs(components: Collection[str], *, kwok: bool) -> tuple[str, ...]:
    """Return what to start, in order; etcd and the API server always."""
    unknown = sorted(set(components) - set(START_ORDER))
    if unknown:
        raise ControlPlaneError(
            f"{', '.join(unknown)}: not a program of the control plane; "
            f"choose from {', '.join(START_ORDER)}"
        )
    wanted = {ETCD, API_SERVER, *components} | ({KWOK} if kwok else set())
    return tuple(name for name in START_ORDER if name in wanted)
