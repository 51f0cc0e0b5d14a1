"""The manager's command line, in the style of Go's flag package (`spec/manager.md` section 2).

`--x=y`, `--x y`, one dash as well; a repeated flag: the last one wins. Values are checked while parsing; what only
makes sense together is checked by `validate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from ome.api.duration import parse_seconds

PROGRAM = "manager"


class FlagError(Exception):
    """A command line that cannot be used; the text is what the user reads."""


class HelpRequested(Exception):
    """`-h` or `--help`."""


def _flag(name: str, default: Any, kind: str, text: str) -> Any:
    metadata = {"flag": name, "kind": kind, "text": text, "default": default}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Flags:
    """The parsed flags. Durations are seconds."""

    kubeconfig: str = _flag("kubeconfig", "", "string", "Kubeconfig file; in a pod its ServiceAccount is used instead")
    webhook: bool = _flag("webhook", False, "bool", "Serve the admission webhooks")
    webhook_port: int = _flag("webhook-port", 9443, "int", "Port of the webhooks")
    webhook_host: str = _flag("webhook-host", "", "string", "Address the webhooks bind to (all when empty)")
    webhook_cert_dir: str = _flag(
        "webhook-cert-dir",
        "/tmp/k8s-webhook-server/serving-certs",
        "string",
        "Folder of tls.crt and tls.key; without them the manager makes its own and keeps them in a Secret",
    )
    health_probe_addr: str = _flag("health-probe-addr", ":8081", "string", "Address of /healthz and /readyz")
    enable_http2: bool = _flag("enable-http2", False, "bool", "Offer HTTP/2 on the metrics and webhook servers")
    metrics_bind_address: str = _flag("metrics-bind-address", ":8080", "string", "Address of /metrics; 0 turns it off")
    metrics_secure: bool = _flag("metrics-secure", False, "bool", "Serve the metrics over HTTPS")
    leader_elect: bool = _flag("leader-elect", False, "bool", "Run the controllers on one replica at a time")
    leader_election_namespace: str = _flag("leader-election-namespace", "ome", "string", "Namespace of the Lease")
    leader_elect_lease_duration: float = _flag("leader-elect-lease-duration", "15s", "duration", "Lease duration")
    leader_elect_renew_deadline: float = _flag("leader-elect-renew-deadline", "10s", "duration", "Renew deadline")
    leader_elect_retry_period: float = _flag("leader-elect-retry-period", "2s", "duration", "Retry period")
    inferenceservice_max_concurrent_reconciles: int = _flag(
        "inferenceservice-max-concurrent-reconciles", 1, "int", "InferenceServices worked on at a time"
    )
    inferencereplica_max_concurrent_reconciles: int = _flag(
        "inferencereplica-max-concurrent-reconciles", 1, "int", "InferenceReplicas worked on at a time"
    )
    kube_api_qps: float = _flag("kube-api-qps", 0.0, "float", "Requests a second, for each resource; 0 is no limit")
    kube_api_burst: int = _flag("kube-api-burst", 0, "int", "Burst above kube-api-qps")
    config_cache_ttl: float = _flag(
        "config-cache-ttl", "30s", "duration", "How long the ConfigMap is believed; 0 is off"
    )
    accelerator_resources: str = _flag(
        "accelerator-resources", "", "string", "Resources that put a component under quota admission (comma list)"
    )
    enable_inferencereplica_controller: bool = _flag(
        "enable-inferencereplica-controller", True, "bool", "Run the InferenceReplica controller"
    )
    runtime_revision_retention: int = _flag(
        "runtime-revision-retention", 10, "int", "Newest runtime revisions kept for each runtime name"
    )
    runtime_revision_grace_period: float = _flag(
        "runtime-revision-grace-period", "24h", "duration", "From the mark to the deletion of a runtime revision"
    )
    zap_encoder: str = _flag("zap-encoder", "json", "choice:json,console", "Log format")
    zap_log_level: str = _flag("zap-log-level", "info", "level", "debug, info, error, panic, or an integer above 0")
    zap_stacktrace_level: str = _flag(
        "zap-stacktrace-level", "error", "choice:info,error,panic", "Level from which stack traces are logged"
    )
    zap_time_encoding: str = _flag(
        "zap-time-encoding",
        "rfc3339",
        "choice:epoch,millis,nanos,iso8601,rfc3339,rfc3339nano",
        "Form of times in the log",
    )
    zap_devel: bool = _flag("zap-devel", False, "bool", "Console, debug level, stack traces from warnings on")
    enable_multicluster: bool = _flag("enable-multicluster", False, "bool", "Alpha")
    multicluster_role: str = _flag("multicluster-role", "", "string", "Alpha: control-plane or empty")
    allow_exec_credentials: bool = _flag("allow-exec-credentials", False, "bool", "Alpha")
    exec_credential_allowed_commands: str = _flag(
        "exec-credential-allowed-commands", "aws,gke-gcloud-auth-plugin,kubelogin", "string", "Alpha"
    )
    placement_control_plane_id: str = _flag("placement-control-plane-id", "", "string", "Alpha")

    LIST_SEPARATOR: ClassVar[str] = ","

    @property
    def accelerators(self) -> tuple[str, ...]:
        """`accelerator-resources` as a list; empty means every component."""
        return tuple(part.strip() for part in self.accelerator_resources.split(self.LIST_SEPARATOR) if part.strip())


_TRUE = {"1", "t", "T", "true", "TRUE", "True"}
_FALSE = {"0", "f", "F", "false", "FALSE", "False"}


def _parse_bool(name: str, value: str) -> bool:
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise FlagError(f'invalid boolean value "{value}" for -{name}: parse error')


def _invalid(name: str, value: str, why: str) -> FlagError:
    return FlagError(f'invalid value "{value}" for flag -{name}: {why}')


def _parse_int(name: str, value: str) -> int:
    try:
        return int(value, 0) if value.lower().startswith(("0x", "0o", "0b")) else int(value)
    except ValueError:
        raise _invalid(name, value, "parse error") from None


def _parse_float(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise _invalid(name, value, "parse error") from None


def _parse_seconds(name: str, value: str) -> float:
    try:
        return parse_seconds(value)
    except ValueError:
        raise _invalid(name, value, "parse error") from None


def _parse_level(name: str, value: str) -> str:
    if value.lower() in ("debug", "info", "error", "panic"):
        return value.lower()
    if value.isdigit() and int(value) > 0:
        return value
    raise _invalid(name, value, f'invalid log level "{value}"')


def _parser(kind: str) -> Callable[[str, str], Any]:
    if kind.startswith("choice:"):
        choices = kind.removeprefix("choice:").split(",")

        def choose(name: str, value: str) -> str:
            if value not in choices:
                raise _invalid(name, value, f"must be one of {', '.join(choices)}")
            return value

        return choose
    return {
        "string": lambda _, value: value,
        "bool": _parse_bool,
        "int": _parse_int,
        "float": _parse_float,
        "duration": _parse_seconds,
        "level": _parse_level,
    }[kind]


def _declared() -> dict[str, tuple[str, str, Any, str]]:
    return {
        f.metadata["flag"]: (f.name, f.metadata["kind"], f.metadata["default"], f.metadata["text"])
        for f in fields(Flags)
        if "flag" in f.metadata
    }


def parse_flags(arguments: Sequence[str]) -> Flags:
    """The flags of a command line. Raises FlagError with Go's texts, HelpRequested for `-h`."""
    declared = _declared()
    values: dict[str, Any] = {}
    for name, (attribute, kind, default, _) in declared.items():
        values[attribute] = _parse_seconds(name, default) if kind == "duration" else default
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            break
        if not argument.startswith("-") or argument == "-":
            raise FlagError(f"unexpected argument {argument!r}: the manager takes flags only")
        name, has_value, value = argument.lstrip("-").partition("=")
        if argument.startswith("---") or not name:
            raise FlagError(f"bad flag syntax: {argument}")
        if name in ("h", "help"):
            raise HelpRequested
        if name not in declared:
            raise FlagError(f"flag provided but not defined: -{name}")
        attribute, kind, _, _ = declared[name]
        if kind == "bool":
            values[attribute] = _parse_bool(name, value) if has_value else True
            continue
        if not has_value:
            if not rest:
                raise FlagError(f"flag needs an argument: -{name}")
            value = rest.pop(0)
        values[attribute] = _parser(kind)(name, value)
    return Flags(**values)


def usage() -> str:
    """What `--help` prints."""
    lines = [f"Usage of {PROGRAM}:"]
    for name, (_, kind, default, text) in sorted(_declared().items()):
        shown = "" if kind == "bool" else f" {kind.partition(':')[0]}"
        lines.append(f"  -{name}{shown}")
        shown = "true" if default is True else default
        tail = f" (default {shown})" if default not in ("", False, 0, 0.0) else ""
        lines.append(f"    \t{text}{tail}")
    return "\n".join(lines)


class StartupProblem(Exception):
    """Why the manager cannot start or go on: the log line and its error."""

    def __init__(self, text: str, error: str) -> None:
        super().__init__(f"{text}: {error}")
        self.text = text
        self.error = error


def validate(flags: Flags) -> None:
    """Raise StartupProblem for combinations that cannot work (`spec/manager.md` section 3)."""
    if flags.leader_elect:
        _validate_leases(flags)
    if flags.kube_api_qps > 0 and flags.kube_api_burst <= 0:
        raise StartupProblem("Failed to create Kubernetes client set", "burst is required to be greater than 0")
    if flags.multicluster_role not in ("", "control-plane"):
        raise StartupProblem(
            "invalid --multicluster-role",
            f'role "{flags.multicluster_role}" is not supported; use "control-plane" or leave it empty',
        )


def _validate_leases(flags: Flags) -> None:
    lease, renew, retry = (
        flags.leader_elect_lease_duration,
        flags.leader_elect_renew_deadline,
        flags.leader_elect_retry_period,
    )
    if lease <= renew:
        rule = f"lease duration {lease:g}s must be greater than renew deadline {renew:g}s"
        raise StartupProblem("Invalid leader election timing", rule)
    if renew <= 1.2 * retry:
        rule = f"renew deadline {renew:g}s must be greater than 1.2 times the retry period {retry:g}s"
        raise StartupProblem("Invalid leader election timing", rule)
    if retry <= 0:
        raise StartupProblem("Invalid leader election timing", f"retry period {retry:g}s must be greater than zero")
