"""The default container of a pod for an annotation that names none.

Injectors add containers to pods at admission, and some insert theirs first. So the first container
of a pod may not be the author's first one. The order of precedence:

1. the annotation ``kubectl.kubernetes.io/default-container``, as in kubectl
2. the first container that no known injector created

A container with a GPU request is excluded: a pod with a GPU memory annotation requests no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from scheduler.model import well_known


class Injector(msgspec.Struct, frozen=True):
    """An injector by container name; with ``is_prefix`` also that name, a dash and a suffix."""

    product: str
    source: str
    is_prefix: bool = False


#: By container name. A name that authors use for their own containers does not belong here.
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
    """The container, and the candidates if it is only the first of several; empty if it is
    certain.
    """

    container: str
    guessed_from: tuple[str, ...] = ()


def is_injected(container: str) -> bool:
    """Whether a known injector creates containers of this name.

    >>> is_injected("istio-proxy"), is_injected("jfs-mount-0"), is_injected("train")
    (True, True, False)
    """
    return container in INJECTED or container.startswith(_PREFIXES)


def intended_container(
    containers: Sequence[str], annotations: Mapping[str, str], init: Sequence[str] = ()
) -> IntendedContainer:
    """The default container; ``init`` are the pod's init containers, which kubectl accepts too.

    If every container has an injector's name, the first one is the author's.
    """
    named = annotations.get(well_known.DEFAULT_CONTAINER, "")
    if named in containers or named in init:
        return IntendedContainer(named)
    own = tuple(name for name in containers if not is_injected(name)) or tuple(containers)
    return IntendedContainer(own[0] if own else "", own if len(own) > 1 else ())
