"""Which container of a pod its author meant, where nothing names one.

Injectors add containers to pods at admission, and some put theirs first. A pod's first container is
therefore not the one that its author wrote first. The order of what is believed:

1. the annotation ``kubectl.kubernetes.io/default-container``, which kubectl believes as well
2. the first container that no known injector made

A container that requests a GPU comes into no question: a pod that wants GPU memory by annotation
requests none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from scheduler.model import well_known


class Injector(msgspec.Struct, frozen=True):
    """Who makes containers of a name; with ``is_prefix`` also of that name, a dash and more."""

    who: str
    source: str
    is_prefix: bool = False


#: By the container's name. A name that people give to containers of their own does not belong here.
INJECTED: Final[dict[str, Injector]] = {
    "istio-proxy": Injector("Istio", "istio/istio pkg/kube/inject/inject.go"),
    "linkerd-proxy": Injector("Linkerd", "linkerd/linkerd2"),
    "consul-dataplane": Injector(
        "Consul", "hashicorp/consul-k8s connect-inject consul_dataplane_sidecar.go", is_prefix=True
    ),
    "kuma-sidecar": Injector("Kuma", "kumahq/kuma"),
    "daprd": Injector("Dapr", "dapr/dapr"),
    "vault-agent": Injector("Vault", "hashicorp/vault-k8s agent-inject container_sidecar.go"),
    "gke-gcsfuse-sidecar": Injector(
        "GCS FUSE", "GoogleCloudPlatform/gcs-fuse-csi-driver pkg/webhook/sidecar_spec.go"
    ),
    "gke-gcsfuse-metadata-prefetch": Injector(
        "GCS FUSE", "GoogleCloudPlatform/gcs-fuse-csi-driver pkg/webhook/sidecar_spec.go"
    ),
    "jfs-mount": Injector("JuiceFS", "juicedata/juicefs-csi-driver", is_prefix=True),
    "fluid-fuse": Injector("Fluid", "fluid-cloudnative/fluid", is_prefix=True),
}
_PREFIXES: Final = tuple(f"{name}-" for name, one in INJECTED.items() if one.is_prefix)


class IntendedContainer(msgspec.Struct, frozen=True):
    """The container, and those among which it was only the first one; empty where it is known."""

    container: str
    guessed_from: tuple[str, ...] = ()


def is_injected(container: str) -> bool:
    """Whether a known injector makes containers of this name.

    >>> is_injected("istio-proxy"), is_injected("jfs-mount-0"), is_injected("train")
    (True, True, False)
    """
    return container in INJECTED or container.startswith(_PREFIXES)


def meant(
    containers: Sequence[str], annotations: Mapping[str, str], init: Sequence[str] = ()
) -> IntendedContainer:
    """The container that is meant; ``init`` are the pod's init containers, which kubectl knows too.

    Where every container has an injector's name, the first one is: it is what its author runs.
    """
    named = annotations.get(well_known.DEFAULT_CONTAINER, "")
    if named in containers or named in init:
        return IntendedContainer(named)
    own = tuple(name for name in containers if not is_injected(name)) or tuple(containers)
    return IntendedContainer(own[0] if own else "", own if len(own) > 1 else ())
