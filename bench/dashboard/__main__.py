"""What the dashboard costs the scheduler of a large cluster, and how long a page takes to appear.

    python -m bench.dashboard [--nodes 1000] [--waiting 1000] [--rounds 5] [--no-browser]

The last line is JSON, with a part for the server and one for the browser (chromium).
"""

from __future__ import annotations

import argparse

from bench.dashboard.browser import browser_part
from bench.dashboard.server import server_part
from bench.observer import dumps


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-browser", dest="browser", action="store_false")
    options = parser.parse_args()
    size = options.nodes, options.waiting, options.rounds
    found = {"server": server_part(*size)}
    if options.browser:
        found["browser"] = browser_part(*size)
    print(dumps(found))


if __name__ == "__main__":
    main()
