"""The README's picture of `gpuctl why` is what the running product prints."""

from __future__ import annotations

from tests.controlplane.conftest import MakeNode
from tools.controlplane import ControlPlane
from tools.product import Product
from tools.why_picture import NODES, alike, block, show, written


def test_readme_shows_what_gpuctl_why_prints(
    cp: ControlPlane, product: Product, namespace: str, kwok_node: MakeNode
) -> None:
    """Run `make picture` after a change of the command's text."""
    for node in NODES:
        kwok_node(node.name, gpus=node.gpus)

    shown = show(cp, product, namespace)

    assert alike(block(shown)) == alike(written())
