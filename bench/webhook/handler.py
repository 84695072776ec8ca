"""The webhook's own histogram of its reviews, read from its metrics page."""

from __future__ import annotations

import http.client
import re
import ssl

from tools.controlplane.ports import LOOPBACK
from tools.product import Product

_BUCKET = re.compile(
    r'^gpu_scheduler_webhook_review_duration_seconds_bucket\{le="([^"]+)",path="/mutate"\} (\S+)$',
    re.MULTILINE,
)


class Handler:
    """The webhook's histogram: the difference since the last read."""

    def __init__(self, product: Product) -> None:
        self._port = product.webhook_port
        self._before = self._read()

    def since(self) -> dict[str, float]:
        """Number of reviews, p50 and p99 (ms, the upper end of the bucket), share below 1 ms."""
        now = self._read()
        grown = {bound: now[bound] - self._before.get(bound, 0.0) for bound in now}
        self._before = now
        count = max(grown.values())
        return {
            "reviews": count,
            "p50_ms": _quantile(grown, count, 0.5),
            "p99_ms": _quantile(grown, count, 0.99),
            "below_1_ms": round(grown[0.001] / count, 4) if count else 0.0,
        }

    def _read(self) -> dict[float, float]:
        context = ssl._create_unverified_context()  # noqa: S323 - our own process, on loopback
        connection = http.client.HTTPSConnection(LOOPBACK, self._port, context=context, timeout=10)
        try:
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
        finally:
            connection.close()
        return {float(bound): float(value) for bound, value in _BUCKET.findall(page)}


def _quantile(grown: dict[float, float], count: float, share: float) -> float:
    """Interpolated inside the bucket, as in Prometheus; milliseconds."""
    lower = below = 0.0
    for bound, total in sorted(grown.items()):
        if total >= share * count and total > below:
            inside = (share * count - below) / (total - below)
            upper = bound if bound != float("inf") else lower
            return round(1000 * (lower + (upper - lower) * inside), 3)
        lower, below = bound, total
    return 0.0
