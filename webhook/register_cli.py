"""``python -m webhook.register_cli``: the registration of a webhook outside of the cluster.

It prints what ``kubectl apply -f -`` takes, once the webhook has answered at its address with a
certificate that the authority vouches for: what would not work is not registered.
"""

from __future__ import annotations

import argparse
import json
import ssl
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scheduler.model import well_known
from webhook.webhook_configuration import webhook_configuration

_ASK_S: Final = 5.0
_AGAIN_S: Final = 0.2


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m webhook.register_cli", description=__doc__)
    parser.add_argument(
        "--url",
        required=True,
        type=_https,
        help="https://HOST:PORT, as the API server reaches the webhook",
    )
    parser.add_argument("--ca-file", type=Path, required=True, help="the authority to trust (PEM)")
    parser.add_argument("--scheduler-name", default=well_known.SCHEDULER_NAME)
    parser.add_argument("--namespace", default="gpu-scheduler-system", help="never reviewed")
    parser.add_argument("--scope", choices=("ours", "all"), default="ours")
    parser.add_argument(
        "--wait-s", type=float, default=30.0, help="seconds that the webhook may take to answer"
    )
    return parser.parse_args(words)


def _https(text: str) -> str:
    """API servers speak to webhooks by TLS alone."""
    if not text.startswith("https://"):
        raise argparse.ArgumentTypeError(f"{text}: expected https://HOST:PORT")
    return text.rstrip("/")


def main(words: Sequence[str] | None = None) -> int:
    """Print the registration; 1 and one line if the webhook does not answer."""
    told = parse(sys.argv[1:] if words is None else words)
    try:
        authority = told.ca_file.read_bytes()
        _wait(f"{told.url}/readyz", authority.decode(), told.wait_s)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"webhook.register_cli: {told.url} with {told.ca_file}: {error}\n")
        return 1
    body = webhook_configuration(
        ca_bundle=authority,
        scheduler_name=told.scheduler_name,
        own_namespace=told.namespace,
        url=told.url,
        scope=told.scope,
    )
    json.dump(body, sys.stdout, indent=2)
    return 0


def _wait(url: str, authority: str, seconds: float) -> None:
    """Return when the webhook is ready, or raise what stood in the way at last."""
    context = ssl.create_default_context(cadata=authority)
    deadline = time.monotonic() + seconds
    while True:
        try:
            # The command line takes https addresses only.
            with urllib.request.urlopen(url, context=context, timeout=_ASK_S):  # noqa: S310 - https only
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_S)


if __name__ == "__main__":
    sys.exit(main())
