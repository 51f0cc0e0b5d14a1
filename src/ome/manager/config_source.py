"""The operator's configuration as the controllers see it: the ConfigMap, read through a cache with a time to live.

An edit starts no reconcile: it applies at each object's next one (`spec/manager.md` section 5). A ConfigMap that is
gone changes nothing: its absence would mean other defaults, and other defaults roll every service of the cluster.
"""

from __future__ import annotations

import asyncio
import logging

from ome.api.config import CONFIG_MAP_NAME, ConfigError, OperatorConfig, parse_config
from ome.api.core import ConfigMap
from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.resources import CONFIG_MAPS

log = logging.getLogger("ome.config")


class ConfigSource:
    """Calling it gives the current `OperatorConfig`. Raises `ome.api.config.ConfigError` for a broken entry."""

    def __init__(self, client: Client, clock: Clock, namespace: str, ttl: float) -> None:
        """`ttl` in seconds; 0 reads the ConfigMap at every call."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._ttl = ttl
        self._lock = asyncio.Lock()
        self._version: str | None = None
        self._outcome: OperatorConfig | ConfigError | None = None
        self._read_at = 0.0

    async def start(self) -> OperatorConfig:
        """The first reading, with the strictness of a start. Raises ConfigError, which ends the process."""
        found = await self._client.find(CONFIG_MAPS, CONFIG_MAP_NAME, self._namespace, into=ConfigMap)
        config = parse_config(found.data if found else {}, starting=True)
        self._keep(found, config)
        return config

    async def __call__(self) -> OperatorConfig:
        if not self._fresh():
            async with self._lock:
                if not self._fresh():
                    await self._read()
        if isinstance(self._outcome, ConfigError):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome

    def _fresh(self) -> bool:
        return self._outcome is not None and self._clock.monotonic() - self._read_at < self._ttl

    async def _read(self) -> None:
        found = await self._client.find(CONFIG_MAPS, CONFIG_MAP_NAME, self._namespace, into=ConfigMap)
        if found is None and self._outcome is not None:
            if self._version is not None:
                log.warning("ConfigMap %s/%s is gone; what it said last is kept", self._namespace, CONFIG_MAP_NAME)
            self._keep(None, self._outcome)
            return
        if found is not None and found.metadata.resource_version == self._version and self._outcome is not None:
            self._read_at = self._clock.monotonic()
            return
        try:
            outcome: OperatorConfig | ConfigError = parse_config(found.data if found else {})
        except ConfigError as error:
            outcome = error
        self._keep(found, outcome)

    def _keep(self, found: ConfigMap | None, outcome: OperatorConfig | ConfigError) -> None:
        self._version = found.metadata.resource_version if found else None
        self._outcome = outcome
        self._read_at = self._clock.monotonic()
