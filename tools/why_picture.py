"""The picture of ``gpuctl why`` in README.md, from the running product.

A control plane is started, the product schedules pods on KWOK nodes, and one pod finds no node. The
answer of ``gpuctl why`` is written into the README by ``python -m tools.why_picture``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any, Final

from tools.controlplane import ControlPlane, FakeNode, add_nodes
from tools.product import ROOT, Product

README: Final = ROOT / "README.md"
NODES: Final = (
    FakeNode(name="h100-1", gpus=8),
    FakeNode(name="h100-2", gpus=8),
    FakeNode(name="cpu-1"),
)
#: Each pod with its GPUs, in the order in which they are created; the last one is explained.
PODS: Final = (("bert-0", 8), ("vllm-0", 4), ("train-0", 8))
_BLOCK: Final = re.compile(
    r"(?<=<!-- why: written by `make picture` from a running product -->\n).*?(?=<!-- /why -->)",
    re.DOTALL,
)
#: What differs in each run: how long ago something was, and the ids of decisions.
_CHANGING: Final = re.compile(r"\b\d+ ?(ms|s|m)\b|\b[0-9a-f]{6}-\d+\b")
#: Longer lines go on in the next one, as in a terminal of this width.
_COLUMNS: Final = 100


def show(plane: ControlPlane, product: Product, namespace: str) -> str:
    """What ``gpuctl why`` prints about the last of PODS; the nodes are there."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for name, gpus in PODS:
        plane.client.create(pods, _pod(name, gpus))
        plane.client.wait_for(f"{pods}/{name}", _is_decided, what=f"{name} to be placed or refused")
    words = [
        *("why", PODS[-1][0], "--namespace", namespace, "--kubeconfig", str(plane.kubeconfig)),
        *("--server", f"http://127.0.0.1:{product.decisions_port}"),
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "gpuctl", *words],
        env={**os.environ, "COLUMNS": str(_COLUMNS), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ended.stdout.replace(namespace, "team-nlp") + ended.stderr


def _pod(name: str, gpus: int) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "nvidia/cuda:12.4.1-base-ubuntu22.04",
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
    }
    spec = {"schedulerName": "gpu-scheduler", "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


def _is_decided(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "PodScheduled" for one in conditions)


def block(shown: str) -> str:
    """The README's block: the command, and its answer up to what to do."""
    lines = shown.partition("\ntried again when")[0].rstrip().splitlines()
    told = "\n".join(_fitting(line) for line in lines)
    return f"```text\n$ gpuctl why {PODS[-1][0]} -n team-nlp\n{told}\n```\n"


def _fitting(line: str) -> str:
    indent = " " * (line.rfind("  ") + 2 if "  " in line else 0)
    return textwrap.fill(line, _COLUMNS, subsequent_indent=indent) if line else line


def alike(text: str) -> list[str]:
    """The block's lines without what differs in each run; the order of equal nodes does too."""
    return sorted(_CHANGING.sub("*", text).splitlines())


def written() -> str:
    """The block that the README has."""
    found = _BLOCK.search(README.read_text(encoding="utf-8"))
    assert found, "README.md has the two comments around the picture"
    return found[0]


def main() -> int:
    """Write the block; exit status 0."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with ControlPlane.start(folder / "plane") as plane:
            add_nodes(plane.client, NODES)
            with Product(plane, folder / "product") as product:
                plane.wait_for_service_account("default")
                shown = show(plane, product, "default")
    text = README.read_text(encoding="utf-8")
    README.write_text(_BLOCK.sub(lambda _: block(shown), text), encoding="utf-8")
    print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
