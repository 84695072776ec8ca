"""Build hook: writes the modules of fakegpu/kubelet/*.proto, for wheels and editable installs.

The Dockerfile runs the same program (`python -m grpc_tools.protoc`) without the build backend.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "fakegpu/kubelet"


class KubeletMessages(BuildHookInterface[Any]):
    """Generates before the files of the package are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the modules, and name them as part of the package: git ignores them."""
        root = Path(self.root)
        protos = sorted(str(path.relative_to(root)) for path in (root / FOLDER).glob("*.proto"))
        options = ["--proto_path=.", "--python_out=.", "--pyi_out=."]
        subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", *options, *protos], cwd=root, check=True
        )
        build_data["artifacts"] += [f"/{FOLDER}/*_pb2.py", f"/{FOLDER}/*_pb2.pyi"]
