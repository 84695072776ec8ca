"""The kubelet's gRPC interfaces: messages generated from the ``.proto`` files, names of services.

The files declare the messages and fields that are used here, with the names and numbers of the
kubelet's API (k8s.io/kubelet v0.37). ``*_pb2.py`` and ``*_pb2.pyi`` are written by the build
(``hatch_build.py``, ``Dockerfile``).
"""

from typing import Final

DEVICE_PLUGIN_VERSION: Final = "v1beta1"
DEVICE_PLUGIN: Final = "v1beta1.DevicePlugin"
DEVICE_PLUGIN_REGISTRATION: Final = "v1beta1.Registration"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

POD_RESOURCES: Final = "v1.PodResourcesLister"

PLUGIN_REGISTRATION: Final = "pluginregistration.Registration"
DRA_PLUGIN: Final = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
#: The type and version of a driver at its registration.
DRA_PLUGIN_TYPE, DRA_PLUGIN_VERSION = "DRAPlugin", "v1.DRAPlugin"

HEALTH: Final = "grpc.health.v1.Health"
