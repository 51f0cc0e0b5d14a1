"""Metric aggregation and Prometheus scraping: two annotations on every service pod, and what they switch on."""

from __future__ import annotations

from typing import Final

from ome.admission.pods.draft import PodDraft
from ome.api import keys
from ome.api.config import MetricsAggregator

QUEUE_PROXY: Final = "queue-proxy"
SCRAPE_PORT: Final = "9091"
AGGREGATED_PORT: Final = "9088"
METRICS_PATH: Final = "/metrics"


def set_metrics(draft: PodDraft, config: MetricsAggregator) -> None:
    """Write both annotations where absent; aggregation sets the queue-proxy up, scraping names port and path."""
    draft.annotations.setdefault(keys.ENABLE_METRIC_AGGREGATION, config.enable_metric_aggregation)
    draft.annotations.setdefault(keys.ENABLE_PROMETHEUS_SCRAPING, config.enable_prometheus_scraping)
    aggregated = draft.asks(keys.ENABLE_METRIC_AGGREGATION)
    if aggregated and draft.container(QUEUE_PROXY) is not None:
        draft.add_env(
            QUEUE_PROXY,
            {
                "AGGREGATE_PROMETHEUS_METRICS_PORT": AGGREGATED_PORT,
                "OME_CONTAINER_PROMETHEUS_METRICS_PORT": draft.annotations.get(keys.OME_PROMETHEUS_PORT, "8080"),
                "OME_CONTAINER_PROMETHEUS_METRICS_PATH": draft.annotations.get(keys.OME_PROMETHEUS_PATH, METRICS_PATH),
            },
        )
    if draft.asks(keys.ENABLE_PROMETHEUS_SCRAPING):
        draft.annotations[keys.PROMETHEUS_PORT] = AGGREGATED_PORT if aggregated else SCRAPE_PORT
        draft.annotations[keys.PROMETHEUS_PATH] = METRICS_PATH
