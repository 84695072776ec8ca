"""The credentials of the control plane's programs and users.

They are created with the control plane; a process that attaches to it reads them. Users of tests
(ServiceAccounts, certificate users) have the rights that RBAC grants and no others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tools.controlplane.client import Client
from tools.controlplane.commands import API_SERVER, FRONT_PROXY, USERS
from tools.controlplane.identity import Identity
from tools.controlplane.layout import Layout
from tools.controlplane.pki import Authority, Pair, service_account_key
from tools.controlplane.ports import LOOPBACK

ADMIN: Final = "admin"
TOKEN_S: Final = 24 * 3600
SERVICE_ADDRESS: Final = "10.0.0.1"
API_SERVER_HOSTS: Final = (
    SERVICE_ADDRESS,
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


class Credentials:
    """The certificate authority of one control plane and the certificates of its users."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.authority = Authority(layout.certificates)

    def found(self) -> None:
        """Create the credentials that the programs need at their start."""
        layout = self._layout
        service_account_key(layout.certificates)
        self.authority.server(API_SERVER, (layout.address, *API_SERVER_HOSTS))
        Authority(layout.front_proxy).client(FRONT_PROXY)
        admin = self.authority.client(ADMIN, ["system:masters"])
        self._of(certificate=admin).write_kubeconfig(layout.kubeconfig(ADMIN))
        for name, (user, groups) in USERS.items():
            identity = self._of(certificate=self.authority.client(user, groups))
            identity.write_kubeconfig(layout.kubeconfig(name))
            self.authority.server(name, (LOOPBACK,))

    @property
    def admin(self) -> Identity:
        """The administrator's identity."""
        folder = self._layout.certificates
        return self._of(
            certificate=Pair(folder / f"client-{ADMIN}.crt", folder / f"client-{ADMIN}.key")
        )

    def user(self, name: str, groups: Iterable[str]) -> Identity:
        """Sign a certificate for a user in these groups."""
        return self._of(certificate=self.authority.client(name, groups))

    def service_account(self, full_name: str, node: str = "") -> Identity:
        """Request a token of the existing ServiceAccount ``namespace/name``.

        With a node the token contains its name, like the token of a pod on that node."""
        namespace, _, name = full_name.partition("/")
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        spec: dict[str, Any] = {"expirationSeconds": TOKEN_S}
        if node:
            uid = Client(self.admin).get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
            bound = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
            spec["boundObjectRef"] = bound
        answer = Client(self.admin).create(path, {"spec": spec})
        return self._of(token=answer["status"]["token"], namespace=namespace)

    def _of(
        self,
        *,
        certificate: Pair | None = None,
        token: str | None = None,
        namespace: str = "default",
    ) -> Identity:
        return Identity(
            server=self._layout.api_url,
            authority=self.authority.files.certificate,
            certificate=certificate,
            token=token,
            namespace=namespace,
        )
