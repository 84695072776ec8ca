"""``python -m webhook``: the admission webhook, a second process beside the scheduler."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from scheduler.httpserver import file_limit
from scheduler.model import well_known
from webhook import log
from webhook.app import Settings, serve
from webhook.certs import CertificateError


def parse(words: Sequence[str], environment: dict[str, str]) -> argparse.Namespace:
    """The command line; PORT and SCHEDULER_NAME are the seeds' environment variables."""
    parser = argparse.ArgumentParser(prog="python -m webhook", description=__doc__)
    parser.add_argument(
        "--socket", type=Path, required=True, help="Unix socket of the scheduler in the same pod"
    )
    parser.add_argument(
        "--cert-dir", type=Path, default=Path("/certs"), help="directory of tls.crt and tls.key"
    )
    parser.add_argument("--port", type=int, default=environment.get("PORT", "8443"))
    parser.add_argument("--host", default="", help="address to listen on; all addresses by default")
    parser.add_argument(
        "--scheduler-name", default=environment.get("SCHEDULER_NAME", well_known.SCHEDULER_NAME)
    )
    parser.add_argument(
        "--client-ca",
        type=Path,
        help="accept only clients with a certificate of this CA",
    )
    parser.add_argument(
        "--drain-s", type=float, default=0.0, help="seconds to keep serving after SIGTERM"
    )
    parser.add_argument(
        "--wait-s", type=float, default=0.0, help="seconds to wait for the certificate"
    )
    parser.add_argument(
        "--decisions-port", type=int, help="also serve the aggregated decisions API, on this port"
    )
    parser.add_argument("--log-format", choices=log.FORMATS, default=log.FORMATS[0])
    parser.add_argument(
        "--log-level",
        choices=log.LEVELS,
        default=log.DETAIL,
        help="info: one line per admitted pod; detail: also the steps of its admission",
    )
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the server; 1 if it could not start."""
    arguments = parse(sys.argv[1:] if words is None else words, dict(os.environ))
    log.set_up(arguments.log_format, arguments.log_level)
    file_limit.raise_limit()
    settings = Settings(
        socket=arguments.socket,
        cert_dir=arguments.cert_dir,
        port=arguments.port,
        host=arguments.host,
        scheduler_name=arguments.scheduler_name,
        client_ca=arguments.client_ca,
        drain_s=arguments.drain_s,
        wait_s=arguments.wait_s,
        decisions_port=arguments.decisions_port,
    )
    try:
        asyncio.run(serve(settings))
    except CertificateError as error:
        return _failed(str(error))
    except OSError as error:
        ports = [str(one) for one in (settings.port, settings.decisions_port) if one is not None]
        where = f"{settings.host or '*'}:{' or '.join(ports)}"
        return _failed(f"cannot listen on {where}: {error}")
    return 0


def _failed(line: str) -> int:
    sys.stderr.write(f"webhook: {line}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
