"""The operator's configuration: the ConfigMap `inferenceservice-config`, each data key a JSON document.

`spec/manager.md` section 5. Two strictnesses: a *starting* manager refuses what a *running* one only ignores. Read
through a cache by the manager; every controller gets the parsed, frozen result. Pure.
"""

# ruff: noqa: RUF012 -- msgspec gives every Struct its own copy of an empty default

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from ome.api.intstr import is_int_or_percent, is_zero
from ome.api.meta import Model
from ome.api.names import COMPONENTS
from ome.api.types.lifecycle import IntOrString

CONFIG_MAP_NAME: Final = "inferenceservice-config"
RAW_DEPLOYMENT: Final = "RawDeployment"
UPDATE_STRATEGIES: Final = ("SurgeThenDrain", "RecreatePod", "InPlaceIfPossible", "InPlaceOnly")
STATUS_ENCODINGS: Final = ("ColumnarV2", "DenseV1")

T = TypeVar("T")


class ConfigError(Exception):
    """An invalid entry. `entry` completes `Failed to initialize <entry> configuration`; the text says what is wrong."""

    def __init__(self, entry: str, message: str) -> None:
        super().__init__(message)
        self.entry = entry


# -- entries -----------------------------------------------------------------------------------------------------------


class ReplicaDefaults(Model, frozen=True, kw_only=True):
    default_min_replicas: int | None = None
    default_max_replicas: dict[str, int] | None = None


class StrategyDefault(Model, frozen=True, kw_only=True):
    """A component's default update strategy; only the budget that the resolved type reads is ever filled in."""

    type: str = ""
    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class DeployConfig(Model, frozen=True, kw_only=True):
    default_deployment_mode: str = RAW_DEPLOYMENT
    replicas: ReplicaDefaults | None = None
    termination_grace_period_seconds: int | None = None
    min_ready_seconds: int | None = None
    update_strategy: dict[str, StrategyDefault] = {}

    @property
    def min_replicas(self) -> int:
        if self.replicas is None or self.replicas.default_min_replicas is None:
            return 1
        return self.replicas.default_min_replicas

    def max_replicas(self, component: str) -> int:
        """The default upper bound; 1 where the operator named none."""
        if self.replicas is None or self.replicas.default_max_replicas is None:
            return 1
        return self.replicas.default_max_replicas.get(component, 1)


class Gateway(Model, frozen=True, kw_only=True):
    ome_ingress_gateway: str = ""
    ingress_domain: str = ""
    gateway_class: str = msgspec.field(default="", name="class")


class IngressConfig(Model, frozen=True, kw_only=True):
    """`spec/install-and-operate.md` section 1.6. The defaults are those of a cluster without the entry."""

    disable_ingress_creation: bool = False
    ingress_domain: str = "svc.cluster.local"
    domain_template: str = "{{ .Name }}.{{ .Namespace }}.{{ .IngressDomain }}"
    url_scheme: str = "http"
    enable_gateway_api: bool = msgspec.field(default=False, name="enableGatewayAPI")
    ingress_gateway: str = ""
    ingress_service: str = ""
    ingress_class_name: str | None = None
    ome_ingress_gateway: str = ""
    ome_ingress_gateway_class: str = ""
    consistent_hash_headers: tuple[str, ...] | None = None
    additional_ingress_domains: tuple[str, ...] | None = None
    path_template: str = ""
    per_isvc_subdomain: bool = msgspec.field(default=False, name="perISVCSubdomain")
    shared_host_prefix: str = ""
    default_route_timeout_seconds: int | None = None
    additional_ingress_gateways: tuple[Gateway, ...] | None = None
    namespace_ingress_gateways: dict[str, str] | None = None
    disable_istio_virtual_host: bool = False


class Budget(Model, frozen=True, kw_only=True, forbid_unknown_fields=True):
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class BudgetDefaults(Model, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mode's default PodDisruptionBudget; None: that mode has none."""

    raw_deployment: Budget | None = None
    ome_native: Budget | None = None


class MetricsAggregator(Model, frozen=True, kw_only=True):
    """Strings, because they become annotation values as they are."""

    enable_metric_aggregation: str = "false"
    enable_prometheus_scraping: str = "false"


class StatusEncoding(Model, frozen=True, kw_only=True):
    instance_status_encoding: str = "ColumnarV2"
    max_decoded_instances: int = 20_000


class MetricProvider(Model, frozen=True, kw_only=True):
    server_address: str = ""
    auth_secret_ref: dict[str, Any] | None = None
    headers: dict[str, str] = {}


class CanaryAnalysisConfig(Model, frozen=True, kw_only=True):
    bundled_prometheus_address: str = ""
    default_provider: str = ""
    query_timeout: str = "5s"
    max_concurrency: int = 8
    cache_ttl: str = msgspec.field(default="2m", name="cacheTTL")


class RolloutConfig(Model, frozen=True, kw_only=True):
    max_pinned_plan_bytes: int = 0
    default_ready_timeout: str = ""


class CoordinationConfig(Model, frozen=True, kw_only=True):
    traffic_weight_deadband_percent: int = 0
    default_ratio_tolerance_percent: int = 5


class OperatorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Every entry, parsed. `OperatorConfig()` is the configuration of a cluster without the ConfigMap's entries.

    `budget_error` is set when `podDisruptionBudget` is invalid: reconciles of services that live must raise it as a
    `ConfigError`, those of services being deleted must not (`spec/inference-service.md` section 6). `lifecycle` is the
    raw entry, {} when it is absent or (running) invalid: `ome.omenative.settings` reads it.
    """

    deploy: DeployConfig = DeployConfig()
    ingress: IngressConfig = IngressConfig()
    budgets: BudgetDefaults = BudgetDefaults()
    budget_error: str = ""
    lifecycle: dict[str, Any] = {}
    metrics_aggregator: MetricsAggregator = MetricsAggregator()
    status_encoding: StatusEncoding = StatusEncoding()
    accelerator_resources: tuple[str, ...] = ("nvidia.com/gpu",)
    canary_analysis: CanaryAnalysisConfig = CanaryAnalysisConfig()
    rollout: RolloutConfig = RolloutConfig()
    coordination: CoordinationConfig = CoordinationConfig()
    metric_providers: dict[str, MetricProvider] = {}
    pod_monitor: dict[str, Any] | None = None
    ome_agent: dict[str, Any] = {}
    model_init: dict[str, Any] = {}
    serving_sidecar: dict[str, Any] = {}
    fine_tuned_adapter: dict[str, Any] = {}
    autoscaler_policy: dict[str, Any] = {}
    multicluster: dict[str, Any] = {}


# -- parsing -----------------------------------------------------------------------------------------------------------


def parse_config(data: Mapping[str, str], *, starting: bool = False) -> OperatorConfig:
    """The ConfigMap's `data` as configuration. Raises `ConfigError`.

    A running manager ignores an invalid `lifecycle` entry, and `omenativeStatus`, which it read at its start.
    """
    budgets, budget_error = _budgets(data)
    return OperatorConfig(
        deploy=_deploy(data),
        ingress=_entry(data, "ingress", IngressConfig, IngressConfig()),
        budgets=budgets,
        budget_error=budget_error,
        lifecycle=_lifecycle(data, starting=starting),
        metrics_aggregator=_entry(data, "metricsAggregator", MetricsAggregator, MetricsAggregator()),
        status_encoding=_status_encoding(data, starting=starting),
        accelerator_resources=tuple(_entry(data, "acceleratorResources", list[str], [])) or ("nvidia.com/gpu",),
        canary_analysis=_entry(data, "canaryAnalysis", CanaryAnalysisConfig, CanaryAnalysisConfig()),
        rollout=_entry(data, "rollout", RolloutConfig, RolloutConfig()),
        coordination=_entry(data, "coordination", CoordinationConfig, CoordinationConfig()),
        metric_providers=_metric_providers(data),
        pod_monitor=_object(data, "podMonitor") or None,
        ome_agent=_object(data, "omeAgent"),
        model_init=_object(data, "modelInit"),
        serving_sidecar=_object(data, "servingSidecar"),
        fine_tuned_adapter=_object(data, "fineTunedAdapter"),
        autoscaler_policy=_object(data, "autoscalerPolicy"),
        multicluster=_object(data, "multicluster"),
    )


def _entry(data: Mapping[str, str], key: str, type_: type[T], default: T, title: str = "") -> T:
    text = data.get(key, "").strip()
    if text in ("", "null"):
        return default
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.DecodeError as error:
        raise ConfigError(title or key, f"unable to parse {key} config json: {error}") from error


def _object(data: Mapping[str, str], key: str) -> dict[str, Any]:
    return _entry(data, key, dict[str, Any], {})


def _deploy(data: Mapping[str, str]) -> DeployConfig:
    deploy = _entry(data, "deploy", DeployConfig, DeployConfig(), title="deployment")
    if deploy.default_deployment_mode != RAW_DEPLOYMENT:
        raise _invalid_deploy(
            f'defaultDeploymentMode must be "{RAW_DEPLOYMENT}", got "{deploy.default_deployment_mode}"'
        )
    for key, count in _replica_defaults(deploy).items():
        if count <= 0:
            raise _invalid_deploy(f"replicas.{key} must be > 0, got {count}")
    for component, strategy in deploy.update_strategy.items():
        _check_strategy(component, strategy)
    return deploy


def _replica_defaults(deploy: DeployConfig) -> dict[str, int]:
    if deploy.replicas is None:
        return {}
    counts = {f"defaultMaxReplicas.{name}": n for name, n in (deploy.replicas.default_max_replicas or {}).items()}
    if deploy.replicas.default_min_replicas is not None:
        counts = {"defaultMinReplicas": deploy.replicas.default_min_replicas} | counts
    return counts


def _check_strategy(component: str, strategy: StrategyDefault) -> None:
    where = f"updateStrategy.{component}"
    if component not in COMPONENTS:
        raise _invalid_deploy(f"{where}: no such component; one of engine, decoder, router")
    if strategy.type and strategy.type not in UPDATE_STRATEGIES:
        raise _invalid_deploy(f'{where}.type must be one of {", ".join(UPDATE_STRATEGIES)}, got "{strategy.type}"')
    for name, budget in (("maxSurge", strategy.max_surge), ("maxUnavailable", strategy.max_unavailable)):
        if budget is None:
            continue
        if not is_int_or_percent(budget) or (isinstance(budget, int) and budget < 0):
            raise _invalid_deploy(f"{where}.{name} must be a non-negative integer or a percentage, got {budget!r}")
        if is_zero(budget):
            raise _invalid_deploy(f"{where}.{name} must be > 0, got {budget}: no rollout could start")


def _invalid_deploy(text: str) -> ConfigError:
    return ConfigError("deployment", f"invalid deploy config, {text}")


def _lifecycle(data: Mapping[str, str], *, starting: bool) -> dict[str, Any]:
    try:
        entry = _entry(data, "lifecycle", dict[str, Any], {}, title="lifecycle scale")
        _check_durations(entry)
    except ConfigError:
        if starting:
            raise
        return {}
    return entry


_LIFECYCLE_DURATIONS: Final = (
    ("instanceReadyTimeout",),
    ("stuckPodGracePeriod",),
    ("unschedulableGracePeriod",),
    ("gangScheduleTimeout", "min"),
    ("gangScheduleTimeout", "max"),
    ("forceDelete", "overdueSlack"),
    ("forceDelete", "nodeUnreachableThreshold"),
    ("teardown", "deadline"),
)


def _check_durations(entry: Mapping[str, Any]) -> None:
    """A bare number where a duration belongs invalidates the whole entry (`spec/omenative.md` section 2.3)."""
    for path in _LIFECYCLE_DURATIONS:
        value: Any = entry
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is not None and not isinstance(value, str):
            where = ".".join(path)
            raise ConfigError(
                "lifecycle scale",
                f'unable to parse lifecycle config json: {where} must be a duration such as "30m", got {value!r}',
            )


def _status_encoding(data: Mapping[str, str], *, starting: bool) -> StatusEncoding:
    try:
        return _checked_status_encoding(data)
    except ConfigError:
        if starting:
            raise
        return StatusEncoding()


def _checked_status_encoding(data: Mapping[str, str]) -> StatusEncoding:
    if "omenativeStatus" not in data:
        raise ConfigError("omenativeStatus", "the omenativeStatus entry is required")
    entry = _entry(data, "omenativeStatus", StatusEncoding, StatusEncoding())
    if entry.instance_status_encoding not in STATUS_ENCODINGS:
        raise ConfigError(
            "omenativeStatus",
            f"invalid omenativeStatus config, instanceStatusEncoding must be one of {', '.join(STATUS_ENCODINGS)}, "
            f'got "{entry.instance_status_encoding}"',
        )
    if entry.max_decoded_instances <= 0:
        raise ConfigError(
            "omenativeStatus",
            f"invalid omenativeStatus config, maxDecodedInstances must be > 0, got {entry.max_decoded_instances}",
        )
    return entry


def _budgets(data: Mapping[str, str]) -> tuple[BudgetDefaults, str]:
    try:
        budgets = _entry(data, "podDisruptionBudget", BudgetDefaults, BudgetDefaults())
    except ConfigError as error:
        return BudgetDefaults(), f"fails to create InferenceServicesConfig: {error}"
    for mode, budget in (("rawDeployment", budgets.raw_deployment), ("omeNative", budgets.ome_native)):
        problem = _budget_problem(f"podDisruptionBudget.{mode}", budget)
        if problem:
            return BudgetDefaults(), f"fails to create InferenceServicesConfig: {problem}"
    return budgets, ""


def _budget_problem(where: str, budget: Budget | None) -> str:
    if budget is None:
        return ""
    given = [value for value in (budget.min_available, budget.max_unavailable) if value is not None]
    if len(given) != 1:
        return f"exactly one of {where}.minAvailable or {where}.maxUnavailable must be set"
    if not is_int_or_percent(given[0]) or (isinstance(given[0], int) and given[0] < 0):
        return f"{where} must be a non-negative integer or a percentage, got {given[0]!r}"
    return ""


def _metric_providers(data: Mapping[str, str]) -> dict[str, MetricProvider]:
    providers = _entry(data, "metricProviders", dict[str, MetricProvider], {})
    _check_providers("metricProviders", providers)
    legacy = _object(data, "autoscalerPolicy").get("metricProviders")
    if not legacy:
        return providers
    try:
        aliased = msgspec.convert(legacy, dict[str, MetricProvider])
    except msgspec.ValidationError as error:
        raise ConfigError("autoscalerPolicy", f"fails to load autoscalerPolicy config: {error}") from error
    _check_providers("autoscalerPolicy", aliased)
    return aliased | providers


def _check_providers(key: str, providers: Mapping[str, MetricProvider]) -> None:
    for name, provider in sorted(providers.items()):
        if not provider.server_address:
            raise ConfigError(key, f'fails to load {key} config: metric provider "{name}" has no serverAddress')
