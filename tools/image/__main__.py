"""The command line: ``python -m tools.image [--archive FILE] [--sbom FILE]``.

Prints the paths of the archive and the SBOM; with options they are copied. Messages go to stderr. A
failure is one line and exit status 1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.controlplane.errors import ControlPlaneError
from tools.image.build import ensure_images


def main(words: Sequence[str] | None = None) -> int:
    """Build both images and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.image",
        description="Both images of the Dockerfile as an OCI archive, without a container engine.",
    )
    parser.add_argument("--archive", type=Path, metavar="FILE", help="put the archive here too")
    parser.add_argument("--sbom", type=Path, metavar="FILE", help="and the list of its parts here")
    arguments = parser.parse_args(words)
    try:
        built = ensure_images()
        for source, target in ((built.archive, arguments.archive), (built.sbom, arguments.sbom)):
            if target is not None:
                shutil.copyfile(source, target)
    except (ControlPlaneError, OSError) as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    print(f"archive\t{built.archive}\nsbom\t{built.sbom}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
