"""Labels of NVIDIA's feature discovery, as the real program published them (0.20, mock NVML).

Only the labels that tell which program assigns a node's GPUs; each set is one node of two A100.
"""

from __future__ import annotations

from typing import Final

_ALWAYS: Final = {
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.family": "ampere",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/mig.capable": "true",
}
WHOLE: Final = _ALWAYS
#: Time-slicing by 4 with ``renameByDefault: false``, and with ``true``.
SLICED: Final = {
    **_ALWAYS,
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-SHARED",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}
RENAMED: Final = {**SLICED, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
#: Both cards cut into seven, strategy mixed.
MIXED: Final = {
    **_ALWAYS,
    "nvidia.com/gpu.replicas": "0",
    "nvidia.com/mig-1g.5gb.count": "14",
    "nvidia.com/mig-1g.5gb.replicas": "1",
    "nvidia.com/mig.strategy": "mixed",
}
SINGLE: Final = {
    **_ALWAYS,
    "nvidia.com/gpu.count": "14",
    "nvidia.com/gpu.memory": "5017",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
    "nvidia.com/gpu.slices.gi": "1",
    "nvidia.com/mig.strategy": "single",
}
#: Strategy single on cards that are cut differently: the plugin exits.
INVALID: Final = {
    **_ALWAYS,
    "nvidia.com/gpu.count": "0",
    "nvidia.com/gpu.memory": "0",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID",
    "nvidia.com/gpu.replicas": "0",
    "nvidia.com/gpu.sharing-strategy": "",
    "nvidia.com/mig.strategy": "single",
}
