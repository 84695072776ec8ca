"""The configuration file: ``gpu-scheduler.io/v1`` ``GpuSchedulerConfiguration``.

Decoding is strict: an unknown key or a wrong type is rejected with its path, so a typo is found at
start.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from scheduler.framework.settings import Settings
from scheduler.model.integer_text import whole
from scheduler.model.mig.fallback_ladder import Ladder, LadderError, parse_ladder
from scheduler.model.well_known import SCHEDULER_NAME
from scheduler.state.breakers.circuit import Timings as Avoidance
from scheduler.state.migration.history import Timings

if TYPE_CHECKING:  # the plugins are most of the program, and the watches start before them
    from scheduler.decide.admission.admit import Rules
    from scheduler.framework.pipeline import Pipeline

API_VERSION = "gpu-scheduler.io/v1"
KIND = "GpuSchedulerConfiguration"
DEFAULT_LADDER = "2g.20gb->1g.20gb->1g.10gb"
JOURNAL_ENTRIES_MAX = 100_000
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
PORT_MAX = 65535
INDEXED_DRIVERS_MAX: Final = 16
TOPOLOGY_LEVELS_MAX: Final = 16
#: Of the API: a DNS subdomain, and a name in such a domain.
DriverName = Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
LabelKey = Annotated[str, msgspec.Meta(min_length=1, max_length=317)]
AttributeName = Annotated[str, msgspec.Meta(min_length=1, max_length=96)]


class ConfigError(ValueError):
    """An invalid configuration; the message is one line with the path and the problem."""


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A section of the file."""


class Maps(_Part, frozen=True):
    """The namespaces that may use maps: those with the label, all, or none."""

    allow: Literal["labelled", "all", "none"] = "labelled"


class Fallback(_Part, frozen=True):
    """MIG fallback at admission; ``scope`` ``all`` also covers other schedulers' pods."""

    scope: Literal["ours", "all"] = "ours"
    ladders: tuple[str, ...] = (DEFAULT_LADDER,)

    def parsed(self) -> tuple[Ladder, ...]:
        """The parsed ladders; LadderError names the invalid one."""
        return tuple(parse_ladder(text) for text in self.ladders)


class Restore(_Part, frozen=True):
    """Migrations of pods to another MIG tier: ``on``, ``report`` (events only) or ``off``.

    In seconds: a better tier must be free without interruption for ``steadyS``; a degraded pod must
    have run for ``minAgeS``; a pending pod must have waited for ``rescueAfterS``. ``cooldownS`` is
    the time between two migrations of a workload. Each migration without the wanted tier doubles
    it.
    """

    #: YAML reads a bare ``on`` or ``off`` as a boolean.
    mode: Literal["on", "report", "off"] | bool = "on"
    steady_s: Annotated[float, msgspec.Meta(ge=0.0)] = 1.0
    min_age_s: Annotated[float, msgspec.Meta(ge=0.0)] = 60.0
    rescue_after_s: Annotated[float, msgspec.Meta(ge=1.0)] = 60.0
    cooldown_s: Annotated[float, msgspec.Meta(ge=1.0)] = 60.0
    migrations_per_hour: Annotated[int, msgspec.Meta(ge=1)] = 20

    def mode_word(self) -> str:
        """The mode as a string."""
        if isinstance(self.mode, bool):
            return "on" if self.mode else "off"
        return self.mode

    def timings(self) -> Timings:
        """The other settings, in the form that decisions use."""
        return Timings(**{name: getattr(self, name) for name in Timings.__struct_fields__})


class Mig(_Part, frozen=True):
    """Dynamic MIG: ``partitionTimeoutS`` is the time to wait for a requested instance.

    With ``relabelNodes`` the scheduler changes the MIG configuration of idle nodes with mig-manager
    (cluster/rbac-relabel.yaml).
    """

    relabel_nodes: bool = False
    partition_timeout_s: Annotated[float, msgspec.Meta(ge=1.0)] = 60.0


class Dra(_Part, frozen=True):
    """``indexAttributes`` has, by DRA driver, the attribute of a device with its index in maps.

    The indexes of NVIDIA's devices are known without it (``model/dra/gpu_indexes``).
    """

    index_attributes: Annotated[
        dict[DriverName, AttributeName], msgspec.Meta(max_length=INDEXED_DRIVERS_MAX)
    ] = {}


class Topology(_Part, frozen=True):
    """``levels`` are keys of node labels that say where a node is in the network, far first.

    Without any they are detected from the labels of the GPU nodes (docs/topology.md).
    """

    levels: Annotated[tuple[LabelKey, ...], msgspec.Meta(max_length=TOPOLOGY_LEVELS_MAX)] = ()


class PreemptionSettings(_Part, frozen=True):
    """Preemption of pods of lower priority; ``victims`` ``all`` also covers other schedulers' pods.

    With ``enabled: false`` the scheduler deletes no bound pod, and the chart's admission policies
    let it delete none.
    """

    enabled: bool = True
    victims: Literal["own", "all"] = "own"


class Gang(_Part, frozen=True):
    """Groups of pods that start together: for how many seconds the first one that does not fit may
    reserve room (0: never), and the other schedulers whose groups are read.
    """

    reserve_seconds: Annotated[float, msgspec.Meta(ge=0.0)] = 60.0
    sources: tuple[Literal["volcano", "kai", "grove"], ...] = ()


class LeaderElection(_Part, frozen=True):
    """Lease name and timings in seconds; kube-scheduler's defaults."""

    leader_elect: bool = True
    resource_name: str = SCHEDULER_NAME
    resource_namespace: str = "gpu-scheduler-system"
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0


class Webhook(_Part, frozen=True):
    """With ``enabled: false`` pods with a map are placed, but their environment is not set.

    ``socket`` is the Unix socket on which the webhook sends admission queries. After the webhook
    has served for ``recreateAfterS``, pods created without it are recreated.
    """

    enabled: bool = True
    socket: str = ""
    recreate_after_s: Annotated[float, msgspec.Meta(ge=1.0)] = 30.0


class JournalSettings(_Part, frozen=True):
    """The last decisions, in memory and, if ``path`` is set, in a file of JSON lines."""

    entries: Annotated[int, msgspec.Meta(ge=1, le=JOURNAL_ENTRIES_MAX)] = 4096
    path: str = ""


class Forward(_Part, frozen=True):
    """The address on which the leader answers admission queries of the other replicas; no address
    disables it.

    ``address`` is ``host:port``; the default host is the environment variable ``POD_IP``. The
    certificate (``tls.crt`` and ``tls.key`` in ``certDir``) must be of ``serverName``.
    """

    address: str = ""
    cert_dir: str = ""
    ca_file: str = ""
    server_name: str = ""
    token_file: str = ""


class Certificates(_Part, frozen=True):
    """The certificate that the scheduler stores in ``secret`` and writes to ``directory``.

    Without ``names`` the Secret has only a token; ``authority`` is the Secret of the CA.
    """

    secret: str = ""
    directory: str = ""
    names: tuple[str, ...] = ()
    authority: str = ""
    days: Annotated[int, msgspec.Meta(ge=1, le=3650)] = 90


class Costs(_Part, frozen=True):
    """``prices`` is the path of the price table (docs/cost.md); empty: GPUs have no price.

    A changed file is read without a restart.
    """

    prices: str = ""


class DecisionsApi(_Part, frozen=True):
    """With ``aggregated`` the webhook serves the decisions of a namespace to the API server.

    The scheduler then reads which clients may proxy for users, with the right on the ConfigMap
    ``kube-system/extension-apiserver-authentication``.
    """

    aggregated: bool = False


class DashboardSettings(_Part, frozen=True):
    """The web dashboard on the port of the decisions API; without an open page it computes nothing
    but a sample of the devices every few minutes.
    """

    enabled: bool = True


class TeamSettings(_Part, frozen=True):
    """Quotas of teams: from the ConfigMap ``configMap`` in the scheduler's namespace, from
    annotations of Namespaces, or none (docs/teams.md). A change of either needs no restart.
    """

    source: Literal["none", "configMap", "namespace"] = "none"
    config_map: Annotated[str, msgspec.Meta(min_length=1, max_length=253)] = "gpu-scheduler-teams"

    @property
    def watched(self) -> str:
        """The name of the ConfigMap, if one is read."""
        return self.config_map if self.source == "configMap" else ""


class Tolerations(_Part, frozen=True):
    """With ``compareNumbers`` the toleration operators ``Lt`` and ``Gt`` are supported.

    Set it where the API server has the feature gate TaintTolerationComparisonOperators.
    """

    compare_numbers: bool = False


class Watch(_Part, frozen=True):
    """A watch without data for longer than ``silenceMaxS`` seconds counts as failed."""

    silence_max_s: Annotated[float, msgspec.Meta(ge=2.0)] = 70.0


class Config(_Part, frozen=True):
    """The whole file; ``decisionStepsMax`` is the step limit of one decision.

    With ``defaultSpread`` pods without GPUs are spread by kube-scheduler's system defaults.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    scheduler_name: str = SCHEDULER_NAME
    placement: Literal["pack", "spread"] = "pack"
    non_gpu: Literal["balanced", "pack"] = "balanced"
    default_spread: bool = False
    maps: Maps = Maps()
    fallback: Fallback = Fallback()
    restore: Restore = Restore()
    mig: Mig = Mig()
    dra: Dra = Dra()
    tolerations: Tolerations = Tolerations()
    topology: Topology = Topology()
    preemption: PreemptionSettings = PreemptionSettings()
    gang: Gang = Gang()
    leader_election: LeaderElection = LeaderElection()
    webhook: Webhook = Webhook()
    forward: Forward = Forward()
    certificates: Certificates = Certificates()
    decisions_api: DecisionsApi = DecisionsApi()
    dashboard: DashboardSettings = DashboardSettings()
    watch: Watch = Watch()
    avoidance: Avoidance = Avoidance()
    journal: JournalSettings = JournalSettings()
    costs: Costs = Costs()
    teams: TeamSettings = TeamSettings()
    health_address: str = "0.0.0.0:8080"
    decisions_address: str = "127.0.0.1:8090"
    decision_steps_max: Annotated[int, msgspec.Meta(ge=1000)] = Settings().decision_steps_max

    @property
    def expects_webhook(self) -> bool:
        """Whether a webhook sends queries to this scheduler."""
        return self.webhook.enabled and bool(self.webhook.socket)

    def pipeline(self) -> Pipeline:
        """The plugins with the settings that decisions use."""
        from scheduler.plugins import default_pipeline

        return default_pipeline(
            Settings(
                scheduler_name=self.scheduler_name,
                placement=self.placement,
                non_gpu=self.non_gpu,
                default_spread=self.default_spread,
                maps_allow=self.maps.allow,
                fallback_scope=self.fallback.scope,
                compare_numbers=self.tolerations.compare_numbers,
                topology_levels=self.topology.levels,
                decision_steps_max=self.decision_steps_max,
                expects_webhook=self.expects_webhook,
                own_namespace=self.leader_election.resource_namespace,
                restores=self.restore.mode_word() == "on",
                preemption=self.preemption.victims if self.preemption.enabled else "off",
            )
        )

    def rules(self) -> Rules:
        """The settings that admissions use."""
        from scheduler.decide.admission.admit import Rules

        fallback = self.fallback
        return Rules(pipeline=self.pipeline(), scope=fallback.scope, ladders=fallback.parsed())


def load(path: Path | None) -> Config:
    """Read and check a file; the defaults if there is none. ConfigError names the path and the
    key.
    """
    if path is None:
        return Config()
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse(content: bytes) -> Config:
    """Read and check a configuration's bytes (YAML)."""
    try:
        config = msgspec.yaml.decode(content, type=Config, strict=True)
    except msgspec.MsgspecError as error:
        raise ConfigError(str(error)) from error
    if config.api_version != API_VERSION or config.kind != KIND:
        raise ConfigError(
            f"expected apiVersion {API_VERSION} and kind {KIND},"
            f" got {config.api_version} {config.kind}"
        )
    try:
        config.fallback.parsed()
    except LadderError as error:
        raise ConfigError(f"$.fallback.ladders: {error}") from error
    if len(set(config.topology.levels)) < len(config.topology.levels):
        raise ConfigError("$.topology.levels: a key is named twice")
    _check_forward(config.forward)
    if config.certificates.names and not config.certificates.authority:
        raise ConfigError("$.certificates.authority: required with names: the Secret of the CA")
    election = config.leader_election
    if not election.lease_duration_s > election.renew_deadline_s > election.retry_period_s > 0:
        raise ConfigError(
            "$.leaderElection: need leaseDurationS > renewDeadlineS > retryPeriodS > 0"
        )
    if config.decisions_address and not _is_loopback(config.decisions_address):
        raise ConfigError(
            f"$.decisionsAddress: {config.decisions_address} must be a loopback address"
            ' (127.0.0.1:PORT); use kubectl port-forward (or "" to disable it)'
        )
    return config


def _is_loopback(address: str) -> bool:
    """Whether an address is a port of the loopback interface."""
    host, _, port = address.rpartition(":")
    return host in LOOPBACK and whole(port, PORT_MAX) is not None


def _check_forward(forward: Forward) -> None:
    if not forward.address:
        return
    if whole(forward.address.rpartition(":")[2], PORT_MAX) is None:
        raise ConfigError(f"$.forward.address: expected host:port, got {forward.address}")
    missing = [name for name, value in msgspec.to_builtins(forward).items() if not value]
    if missing:
        raise ConfigError(
            f"$.forward: with an address, these settings are required too: {', '.join(missing)}"
        )
