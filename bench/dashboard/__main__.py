"""What the dashboard costs the scheduler of a large cluster, and how long a page takes to appear.

    python -m bench.dashboard [--nodes 1000] [--waiting 1000] [--rounds 5]

The last line is JSON, with a part for the server; the time until the first paint in a browser comes
beside it.
"""

from __future__ import annotations

import argparse

from bench.dashboard.server import server_part
from bench.observer import dumps


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    server = server_part(options.nodes, options.waiting, options.rounds)
    print(dumps({"server": server}))


if __name__ == "__main__":
    main()
