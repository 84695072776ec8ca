"""One Prometheus on the loopback interface, with its files in one directory."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools.controlplane import ControlPlaneError, ensure, wait_until
from tools.controlplane.ports import LOOPBACK, free_ports
from tools.controlplane.process import Running, start, tail

Json = dict[str, Any]
#: Of the tests: Prometheus' default is a minute.
INTERVAL: Final = "1s"
START_S: Final = 60.0
QUERY_S: Final = 30.0


class Prometheus:
    """Runs until the end of the block; ``groups`` are the rule groups of PrometheusRules."""

    def __init__(
        self, directory: Path, scrape_configs: Sequence[Json], groups: Iterable[Json] = ()
    ) -> None:
        self._directory = directory
        self._configs = scrape_configs
        self._groups = list(groups)
        (self._port,) = free_ports(1)
        self._program: Running | None = None
        self.started_at = time.time()

    def __enter__(self) -> Prometheus:
        self._directory.mkdir(parents=True, exist_ok=True)
        rules = self._directory / "rules.json"
        rules.write_text(json.dumps({"groups": self._groups}))
        # JSON is YAML.
        config = self._directory / "prometheus.json"
        config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
                    "rule_files": [str(rules)],
                    "scrape_configs": self._configs,
                }
            )
        )
        command = [
            str(ensure(["prometheus"])["prometheus"]),
            f"--config.file={config}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self._port}",
        ]
        self.started_at = time.time()
        self._program = start("prometheus", command, log=self._log, home=self._directory)
        try:
            wait_until(self._is_ready, what="Prometheus to be ready", timeout_s=START_S)
        except BaseException:  # after an interrupt too, it does not keep running
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._program is not None:
            self._program.stop()
            self._program = None

    def instant(self, expression: str) -> list[Json]:
        """The result of a query now: one entry for each series."""
        result: list[Json] = self._ask("query", query=expression)["result"]
        return result

    def over_time(self, expression: str, seconds: float, step_s: float = 1.0) -> list[Json]:
        """The series of a query over the last seconds."""
        now = time.time()
        begin = max(self.started_at, now - seconds)
        result: list[Json] = self._ask(
            "query_range", query=expression, start=begin, end=now, step=step_s
        )["result"]
        return result

    def alerts(self) -> dict[str, set[str]]:
        """The states (pending, firing) of each active alert."""
        found: dict[str, set[str]] = {}
        for one in self._ask("alerts")["alerts"]:
            found.setdefault(one["labels"]["alertname"], set()).add(one["state"])
        return found

    def rules(self) -> list[Json]:
        """The rules as Prometheus read them, with their health and last evaluation."""
        groups = self._ask("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def targets(self) -> list[Json]:
        """The scraped targets with their labels and health."""
        found: list[Json] = self._ask("targets")["activeTargets"]
        return found

    def names(self) -> set[str]:
        """The names of all series."""
        return set(self._ask("label/__name__/values"))

    @property
    def _log(self) -> Path:
        return self._directory / "prometheus.log"

    def _is_ready(self) -> bool:
        if self._program is None or not self._program.is_alive():
            raise ControlPlaneError(f"Prometheus ended:\n{tail(self._log)}")
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=QUERY_S) as answer:  # noqa: S310 - loopback
                return bool(answer.status == 200)
        except OSError:
            return False

    @property
    def _url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    def _ask(self, what: str, **values: Any) -> Any:
        words = urllib.parse.urlencode(values).encode() or None
        try:
            with urllib.request.urlopen(  # noqa: S310 - loopback
                f"{self._url}/api/v1/{what}", data=words, timeout=QUERY_S
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                said: Mapping[str, Any] = json.load(error)
            raise ControlPlaneError(f"Prometheus: {said.get('error')} ({values})") from None
