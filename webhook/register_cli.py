"""``python -m webhook.register_cli``: the registration of a webhook outside of the cluster.

Prints the registration for ``kubectl apply -f -``, after the webhook answered at its address with a
certificate of the CA, so that only a working webhook is registered.
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
        help="URL by which the API server calls the webhook: https://HOST:PORT",
    )
    parser.add_argument(
        "--ca-file", type=Path, required=True, help="CA certificate of the webhook (PEM)"
    )
    parser.add_argument("--scheduler-name", default=well_known.SCHEDULER_NAME)
    parser.add_argument("--namespace", default="gpu-scheduler-system", help="never reviewed")
    parser.add_argument("--scope", choices=("ours", "all"), default="ours")
    parser.add_argument(
        "--wait-s", type=float, default=30.0, help="timeout of one webhook call in seconds"
    )
    return parser.parse_args(words)


def _https(text: str) -> str:
    """API servers call webhooks only by TLS."""
    if not text.startswith("https://"):
        raise argparse.ArgumentTypeError(f"{text}: expected https://HOST:PORT")
    return text.rstrip("/")


def main(words: Sequence[str] | None = None) -> int:
    """Print the registration; 1 and one line if the webhook does not answer."""
    settings = parse(sys.argv[1:] if words is None else words)
    try:
        authority = settings.ca_file.read_bytes()
        _wait(f"{settings.url}/readyz", authority.decode(), settings.wait_s)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"webhook.register_cli: {settings.url} with {settings.ca_file}: {error}\n")
        return 1
    body = webhook_configuration(
        ca_bundle=authority,
        scheduler_name=settings.scheduler_name,
        own_namespace=settings.namespace,
        url=settings.url,
        scope=settings.scope,
    )
    json.dump(body, sys.stdout, indent=2)
    return 0


def _wait(url: str, authority: str, seconds: float) -> None:
    """Return when the webhook is ready, or raise the last error."""
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
