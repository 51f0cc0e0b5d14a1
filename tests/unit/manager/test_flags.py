"""The manager's command line reads like Go's."""

from __future__ import annotations

from typing import Any

import pytest

from ome.manager.flags import FlagError, Flags, StartupProblem, parse_flags, validate

DEFAULTS: list[tuple[str, Any]] = [
    ("webhook", False),
    ("webhook_port", 9443),
    ("health_probe_addr", ":8081"),
    ("enable_http2", False),
    ("metrics_bind_address", ":8080"),
    ("metrics_secure", False),
    ("leader_elect", False),
    ("leader_election_namespace", "ome"),
    ("leader_elect_lease_duration", 15.0),
    ("leader_elect_renew_deadline", 10.0),
    ("leader_elect_retry_period", 2.0),
    ("inferenceservice_max_concurrent_reconciles", 1),
    ("inferencereplica_max_concurrent_reconciles", 1),
    ("kube_api_qps", 0.0),
    ("kube_api_burst", 0),
    ("config_cache_ttl", 30.0),
    ("accelerators", ()),
    ("enable_inferencereplica_controller", True),
    ("runtime_revision_retention", 10),
    ("runtime_revision_grace_period", 24 * 3600.0),
    ("zap_encoder", "json"),
    ("zap_log_level", "info"),
    ("zap_stacktrace_level", "error"),
    ("zap_time_encoding", "rfc3339"),
    ("zap_devel", False),
    ("enable_multicluster", False),
    ("multicluster_role", ""),
    ("allow_exec_credentials", False),
    ("exec_credential_allowed_commands", "aws,gke-gcloud-auth-plugin,kubelogin"),
    ("placement_control_plane_id", ""),
]


@pytest.mark.spec("MA-1")
@pytest.mark.parametrize(("attribute", "value"), DEFAULTS, ids=[name for name, _ in DEFAULTS])
def test_every_flag_has_its_default(attribute: str, value: Any) -> None:
    assert getattr(parse_flags([]), attribute) == value


@pytest.mark.spec("MA-1")
@pytest.mark.parametrize(
    ("arguments", "attribute", "value"),
    [
        (["--webhook-port=1"], "webhook_port", 1),
        (["--webhook-port", "1"], "webhook_port", 1),
        (["-webhook-port=1"], "webhook_port", 1),
        (["--webhook-port=1", "--webhook-port=2"], "webhook_port", 2),
        (["--webhook"], "webhook", True),
        (["--webhook=false"], "webhook", False),
        (["--webhook=T"], "webhook", True),
        (["--runtime-revision-grace-period=15s"], "runtime_revision_grace_period", 15.0),
        (["--runtime-revision-grace-period=1h30m"], "runtime_revision_grace_period", 5400.0),
        (
            ["--accelerator-resources=nvidia.com/gpu,google.com/tpu"],
            "accelerators",
            ("nvidia.com/gpu", "google.com/tpu"),
        ),
        (["--config-cache-ttl=0"], "config_cache_ttl", 0.0),
        (["--zap-log-level=4"], "zap_log_level", "4"),
    ],
)
def test_forms(arguments: list[str], attribute: str, value: Any) -> None:
    assert getattr(parse_flags(arguments), attribute) == value


@pytest.mark.spec("MA-1", "MA-5")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--nope"], "flag provided but not defined: -nope"),
        (["--webhook-port=x"], 'invalid value "x" for flag -webhook-port: parse error'),
        (
            ["--runtime-revision-grace-period=3d"],
            'invalid value "3d" for flag -runtime-revision-grace-period: parse error',
        ),
        (["--webhook=perhaps"], 'invalid boolean value "perhaps" for -webhook: parse error'),
        (["--webhook-port"], "flag needs an argument: -webhook-port"),
        (["--zap-encoder=xml"], 'invalid value "xml" for flag -zap-encoder: must be one of json, console'),
        (["--zap-log-level=0"], 'invalid value "0" for flag -zap-log-level: invalid log level "0"'),
    ],
)
def test_a_bad_argument_says_what_is_wrong(arguments: list[str], text: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_flags(arguments)
    assert str(caught.value) == text


@pytest.mark.spec("MA-5")
@pytest.mark.parametrize(
    ("flags", "text", "error"),
    [
        (
            Flags(leader_elect=True, leader_elect_lease_duration=10, leader_elect_renew_deadline=10),
            "Invalid leader election timing",
            "lease duration 10s must be greater than renew deadline 10s",
        ),
        (
            Flags(
                leader_elect=True,
                leader_elect_lease_duration=15,
                leader_elect_renew_deadline=10,
                leader_elect_retry_period=9,
            ),
            "Invalid leader election timing",
            "renew deadline 10s must be greater than 1.2 times the retry period 9s",
        ),
        (
            Flags(kube_api_qps=5.0, leader_elect_lease_duration=15),
            "Failed to create Kubernetes client set",
            "burst is required to be greater than 0",
        ),
        (
            Flags(multicluster_role="spoke"),
            "invalid --multicluster-role",
            'role "spoke" is not supported; use "control-plane" or leave it empty',
        ),
    ],
)
def test_combinations_that_cannot_work(flags: Flags, text: str, error: str) -> None:
    with pytest.raises(StartupProblem) as caught:
        validate(flags)
    assert (caught.value.text, caught.value.error) == (text, error)
