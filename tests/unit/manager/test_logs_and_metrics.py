"""The log's forms, and the metrics' names."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from ome.kube.requests import Request
from ome.manager.flags import parse_flags
from ome.manager.logs import set_up_logging
from ome.manager.metrics import ManagerMetrics


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.level, [*root.handlers])
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]


def logged(*flags: str, level: int = logging.INFO) -> str:
    stream = io.StringIO()
    set_up_logging(parse_flags(flags), stream)
    logging.getLogger("somebody").log(level, "hello %s", "world", extra={"key": 7})
    return stream.getvalue()


@pytest.mark.spec("MA-8")
def test_json_is_the_default() -> None:
    entry = json.loads(logged())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry.pop("ts"))
    assert entry == {"level": "info", "logger": "somebody", "msg": "hello world", "key": 7}


@pytest.mark.spec("MA-8")
def test_console_is_tab_separated() -> None:
    when, level, logger, message, rest = logged("--zap-encoder=console").rstrip("\n").split("\t")
    assert (level, logger, message, json.loads(rest)) == ("INFO", "somebody", "hello world", {"key": 7})
    assert when.endswith("Z")


@pytest.mark.spec("MA-8")
@pytest.mark.parametrize(
    ("encoding", "form"),
    [
        ("epoch", r"\d+\.\d+"),
        ("millis", r"\d{13}\.\d+"),
        ("nanos", r"\d{19}"),
        ("iso8601", r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"'),
        ("rfc3339", r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"'),
        ("rfc3339nano", r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"'),
    ],
)
def test_times(encoding: str, form: str) -> None:
    assert re.search(rf'"ts": {form},', logged(f"--zap-time-encoding={encoding}"))


@pytest.mark.spec("MA-8")
@pytest.mark.parametrize(
    ("flags", "level", "shown"),
    [
        ((), logging.DEBUG, False),
        (("--zap-log-level=debug",), logging.DEBUG, True),
        (("--zap-log-level=error",), logging.INFO, False),
        (("--zap-log-level=error",), logging.ERROR, True),
        (("--zap-devel",), logging.DEBUG, True),
    ],
)
def test_levels(flags: tuple[str, ...], level: int, shown: bool) -> None:
    assert bool(logged(*flags, level=level)) is shown


@pytest.mark.spec("MA-9")
def test_metrics_have_the_names_that_dashboards_know() -> None:
    metrics = ManagerMetrics()
    metrics.declared("inferenceservice", 4, lambda: 3)
    metrics.started("inferenceservice")
    metrics.finished("inferenceservice", "success", 0.01)
    metrics.started("inferenceservice")
    metrics.leading("lock", True)
    metrics.webhook("/validate", 200)
    metrics.group_transitions.labels("ns", "svc", "group", "Staged").inc()
    metrics.request(Request("GET", "/apis/ome.io/v1beta1/namespaces/a/inferenceservices/x/status"))
    text = metrics.render().decode()
    for line in (
        'controller_runtime_active_workers{controller="inferenceservice"} 1.0',
        'controller_runtime_max_concurrent_reconciles{controller="inferenceservice"} 4.0',
        'controller_runtime_reconcile_total{controller="inferenceservice",result="success"} 1.0',
        'workqueue_depth{name="inferenceservice"} 3.0',
        'leader_election_master_status{name="lock"} 1.0',
        'controller_runtime_webhook_requests_total{code="200",webhook="/validate"} 1.0',
        'ome_omenative_rollout_group_transition_total{group="group",isvc="svc",namespace="ns",to="Staged"} 1.0',
        'rest_client_requests_total{method="GET",resource="inferenceservices/status"} 1.0',
    ):
        assert line in text.splitlines()
