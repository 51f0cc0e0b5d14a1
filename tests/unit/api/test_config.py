"""The operator's configuration: what is read, what stops a start, what a running manager ignores."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ome.api.config import ConfigError, parse_config
from ome.install.configuration import operator_config


def data(**entries: Any) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in entries.items()}


@pytest.mark.spec("IN-3")
def test_the_charts_defaults() -> None:
    config = parse_config(data(**operator_config("ome", "chart", tag="1")), starting=True)
    assert config.deploy.default_deployment_mode == "RawDeployment"
    assert config.deploy.min_replicas == 1
    assert [config.deploy.max_replicas(name) for name in ("engine", "decoder", "router")] == [3, 3, 2]
    assert config.deploy.termination_grace_period_seconds == 600
    assert config.budgets.raw_deployment is not None
    assert config.budgets.raw_deployment.max_unavailable == 1
    assert config.budgets.ome_native is not None
    assert config.lifecycle["updateRetry"] == {
        "maxAttempts": 3,
        "initialDelay": "1m",
        "maxDelay": "30m",
        "multiplier": 2.0,
    }
    assert config.rollout.default_ready_timeout == "15m"
    assert config.ingress.disable_ingress_creation


def test_a_manifest_install_sets_hardly_anything() -> None:
    config = parse_config(data(**operator_config("ome", "kustomize", tag="1")), starting=True)
    assert config.deploy.min_replicas == 1
    assert config.deploy.max_replicas("engine") == 1
    assert config.deploy.termination_grace_period_seconds is None
    assert config.budgets.raw_deployment is None
    assert config.lifecycle == {"instanceReadyTimeout": "30m"}


@pytest.mark.parametrize(
    ("entries", "entry", "text"),
    [
        pytest.param(data(deploy="{"), "deployment", "unable to parse deploy config json", id="deploy is no JSON"),
        pytest.param(
            data(deploy={"defaultDeploymentMode": "Serverless"}), "deployment", "Serverless", id="another default mode"
        ),
        pytest.param(
            data(deploy={"replicas": {"defaultMaxReplicas": {"engine": 0}}}),
            "deployment",
            "invalid deploy config, replicas.defaultMaxReplicas.engine must be > 0, got 0",
            id="a zero maximum",
        ),
        pytest.param(
            data(deploy={"replicas": {"defaultMinReplicas": -1}}),
            "deployment",
            "invalid deploy config, replicas.defaultMinReplicas must be > 0, got -1",
            id="a negative minimum",
        ),
        pytest.param(
            data(deploy={"updateStrategy": {"engine": {"maxSurge": "0%"}}}),
            "deployment",
            "maxSurge",
            id="a zero budget",
        ),
        pytest.param(
            data(lifecycle={"instanceReadyTimeout": 30}),
            "lifecycle scale",
            "unable to parse lifecycle config json",
            id="a bare number as a duration",
        ),
        pytest.param(
            data(lifecycle="not json"), "lifecycle scale", "unable to parse lifecycle config json", id="no JSON"
        ),
        pytest.param(data(metricProviders={"a": {}}), "metricProviders", "has no serverAddress", id="no address"),
        pytest.param(
            data(autoscalerPolicy={"metricProviders": {"a": {}}}),
            "autoscalerPolicy",
            "fails to load autoscalerPolicy config",
            id="no address under the deprecated name",
        ),
        pytest.param({}, "omenativeStatus", "required", id="no status encoding"),
    ],
)
def test_what_stops_a_start(entries: dict[str, str], entry: str, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(data(omenativeStatus={}) | entries if entries else {}, starting=True)
    assert refused.value.entry == entry
    assert text in str(refused.value)


def test_a_running_manager_ignores_a_bad_lifecycle_and_a_missing_encoding() -> None:
    assert parse_config(data(lifecycle={"instanceReadyTimeout": 30})).lifecycle == {}
    assert parse_config({}).status_encoding.instance_status_encoding == "ColumnarV2"


def test_a_running_manager_refuses_a_bad_deploy_entry() -> None:
    with pytest.raises(ConfigError):
        parse_config(data(deploy="{"))


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        pytest.param(
            {},
            "fails to create InferenceServicesConfig: exactly one of podDisruptionBudget.rawDeployment.minAvailable or "
            "podDisruptionBudget.rawDeployment.maxUnavailable must be set",
            id="none of the two",
        ),
        pytest.param({"minAvailable": 1, "maxUnavailable": 1}, "exactly one of", id="both"),
        pytest.param({"maxunavailable": 1}, "unknown field", id="keys are case-sensitive"),
    ],
)
def test_a_bad_budget_is_remembered_for_services_that_live(budget: dict[str, int], text: str) -> None:
    config = parse_config(data(podDisruptionBudget={"rawDeployment": budget}))
    assert text in config.budget_error
    assert config.budgets.raw_deployment is None


def test_null_turns_a_budget_off() -> None:
    config = parse_config(data(podDisruptionBudget={"rawDeployment": None, "omeNative": {"minAvailable": "50%"}}))
    assert config.budget_error == ""
    assert config.budgets.raw_deployment is None
    assert config.budgets.ome_native is not None
