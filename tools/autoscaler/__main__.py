"""``python -m tools.autoscaler --gpus 4 --most 3``: add and remove KWOK nodes every few seconds."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from tools.autoscaler.contract import Reading
from tools.autoscaler.controller import Autoscaler
from tools.autoscaler.plan import NodeGroup
from tools.controlplane.fake_nodes import FakeNode


def kubectl(*words: str, input: str | None = None) -> str:
    """Run kubectl with the user's kubeconfig."""
    done = subprocess.run(
        ["kubectl", *words], input=input, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def main(words: Sequence[str] | None = None) -> int:
    """Scale until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tools.autoscaler", description=__doc__)
    parser.add_argument("--group", default="gpus", help="the name of the node group")
    parser.add_argument("--gpus", type=int, default=4, help="GPUs of each node")
    parser.add_argument("--most", type=int, default=3, help="the largest number of nodes")
    parser.add_argument("--reading", type=Reading, default=Reading.CLUSTER_AUTOSCALER)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two looks")
    given = parser.parse_args(words)
    template = FakeNode(name="", gpus=given.gpus).manifest()
    scaler = Autoscaler(kubectl, NodeGroup(given.group, template, given.most), given.reading)
    try:
        while True:
            done = scaler.step()
            if done.add or done.remove:
                print(f"added {done.add}, removed {', '.join(done.remove) or 'none'}", flush=True)
            time.sleep(given.every)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
