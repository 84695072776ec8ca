"""The command line of each program of the control plane.

Pure functions from layout and options to command lines. All programs listen on the loopback
interface; the API server's address is an option. The API server authorises by RBAC only. No program
writes outside of the control plane's directory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.controlplane.layout import STAGES, Layout, Options
from tools.controlplane.ports import LOOPBACK

ETCD: Final = "etcd"
API_SERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
KWOK: Final = "kwok"

#: The order in which programs start; they end in the reverse order.
START_ORDER: Final = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK)

#: Users as which the programs call the API server, with their groups. The first two have their
#: roles from the API server's own bootstrap policy; KWOK acts as the kubelet of every fake node.
USERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    CONTROLLER_MANAGER: ("system:kube-controller-manager", ()),
    SCHEDULER: ("system:kube-scheduler", ()),
    KWOK: ("kwok", ("system:masters",)),
}

#: The common name of the certificate by which aggregated APIs know the API server.
FRONT_PROXY: Final = "front-proxy-client"

#: An API server with the Node authorizer and NodeRestriction, as in real clusters, beside RBAC.
NODE_AUTHORIZATION: Final = (
    "--authorization-mode=Node",
    "--enable-admission-plugins=NodeRestriction",
)

SERVICE_RANGE: Final = "10.0.0.0/24"
ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
NODE_ANNOTATION: Final = ("kwok.x-k8s.io/node", "fake")


def etcd(layout: Layout, _options: Options) -> list[str]:
    """etcd without fsync, because the data belongs to a test."""
    ports = layout.ports
    client = f"http://{LOOPBACK}:{ports.etcd}"
    peer = f"http://{LOOPBACK}:{ports.etcd_peer}"
    return [
        f"--data-dir={layout.etcd_data}",
        "--name=default",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def api_server(layout: Layout, options: Options) -> list[str]:
    """kube-apiserver; its endpoint reconciler rejects loopback addresses and is off there."""
    pki = layout.certificates
    words = [
        f"--etcd-servers=http://{LOOPBACK}:{layout.ports.etcd}",
        f"--bind-address={layout.address}",
        f"--secure-port={layout.ports.api_server}",
        f"--tls-cert-file={pki / 'server-kube-apiserver.crt'}",
        f"--tls-private-key-file={pki / 'server-kube-apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--cert-dir={pki}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={pki / 'service-account.key'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        # Aggregated APIs know the API server by this certificate, of an authority of its own.
        f"--proxy-client-cert-file={layout.front_proxy / f'client-{FRONT_PROXY}.crt'}",
        f"--proxy-client-key-file={layout.front_proxy / f'client-{FRONT_PROXY}.key'}",
        f"--requestheader-client-ca-file={layout.front_proxy / 'ca.crt'}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
    ]
    if layout.address == LOOPBACK:
        words.append("--endpoint-reconciler-type=none")
    if options.disable_admission:
        words.append(f"--disable-admission-plugins={','.join(options.disable_admission)}")
    if options.audit:
        words += [
            f"--audit-log-path={layout.audit_log}",
            f"--audit-policy-file={layout.audit_policy}",
            "--audit-log-mode=blocking",
            # In megabytes; the default of 100 rotates the log during a test.
            "--audit-log-maxsize=10000",
        ]
    return [*words, *options.api_server_flags]


def controller_manager(layout: Layout, _options: Options) -> list[str]:
    """kube-controller-manager with all controllers, each with its own ServiceAccount."""
    pki = layout.certificates
    return [
        *_kube_client(layout, CONTROLLER_MANAGER, layout.ports.controller_manager),
        "--controllers=*",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki / 'service-account.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        f"--flex-volume-plugin-dir={layout.directory / 'volume-plugins'}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        # A busy machine may starve KWOK, or a test that beats for a node, for longer than the
        # default of 50 s. No test waits for a node to be given up.
        "--node-monitor-grace-period=10m",
        # Autoscalers sync every second; the default is 15 s.
        "--horizontal-pod-autoscaler-sync-period=1s",
    ]


def scheduler(layout: Layout, _options: Options) -> list[str]:
    """kube-scheduler with its default configuration, for comparisons."""
    return [*_kube_client(layout, SCHEDULER, layout.ports.scheduler), "--leader-elect=false"]


def kwok(layout: Layout, _options: Options) -> list[str]:
    """KWOK, for nodes with the annotation only, so that a real node can join."""
    return [
        f"--kubeconfig={layout.kubeconfig(KWOK)}",
        f"--config={STAGES}",
        f"--manage-nodes-with-annotation-selector={'='.join(NODE_ANNOTATION)}",
        f"--server-address={LOOPBACK}:{layout.ports.kwok}",
        "--node-lease-duration-seconds=40",
        "--node-ip=10.1.0.1",
        "--cidr=10.2.0.0/16",
    ]


def _kube_client(layout: Layout, name: str, port: int) -> list[str]:
    pki = layout.certificates
    return [
        f"--kubeconfig={layout.kubeconfig(name)}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={pki / f'server-{name}.crt'}",
        f"--tls-private-key-file={pki / f'server-{name}.key'}",
        # Health and metrics need no authorization, for tests and benchmarks.
        "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
    ]


_WORDS: Final[dict[str, Callable[[Layout, Options], list[str]]]] = {
    ETCD: etcd,
    API_SERVER: api_server,
    CONTROLLER_MANAGER: controller_manager,
    SCHEDULER: scheduler,
    KWOK: kwok,
}


def command(name: str, program: Path, layout: Layout, options: Options) -> list[str]:
    """Return the whole command line of one program."""
    return [str(program), *_WORDS[name](layout, options), *options.flags_of(name)]


def health_url(name: str, layout: Layout) -> str:
    """Return the URL of a program's readiness check."""
    ports = layout.ports
    return {
        ETCD: f"http://{LOOPBACK}:{ports.etcd}/readyz",
        API_SERVER: f"{layout.api_url}/readyz",
        CONTROLLER_MANAGER: f"https://{LOOPBACK}:{ports.controller_manager}/healthz",
        SCHEDULER: f"https://{LOOPBACK}:{ports.scheduler}/readyz",
        KWOK: f"http://{LOOPBACK}:{ports.kwok}/healthz",
    }[name]


#: Request bodies only for the resources that tests check; metadata for the others. What programs of
#: the control plane do is left out where no test asks about it: it is half of the events.
AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["create", "update", "patch", "delete"],
            "resources": [
                {
                    "group": "",
                    "resources": ["pods", "pods/binding", "pods/status", "pods/eviction"],
                }
            ],
        },
        {
            "level": "None",
            "users": ["system:apiserver", *(name for name, _ in USERS.values())],
        },
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata"},
    ],
}
