"""Whether the caches show the runtimes of a chain as they are now.

Caches of different resources run ahead of one another: a token can be seen before the runtime's last edit. So a pin
moves to what the API server has, never to what a cache still shows. Called by `ome.services` before a revision is
stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ome.api import keys
from ome.api.types.runtimes import ClusterServingRuntime, ServingRuntime
from ome.kube.cache import Cache
from ome.kube.client import Client
from ome.kube.resources import CLUSTER_SERVING_RUNTIMES, SERVING_RUNTIMES
from ome.runtimes.inheritance import Chain
from ome.runtimes.reading import Runtime, RuntimeKind


@dataclass(frozen=True, slots=True)
class LiveCheck:
    """Reads live, and lets the caches take in what it reads."""

    client: Client
    namespaced: Cache[ServingRuntime]
    cluster: Cache[ClusterServingRuntime]

    async def confirms(self, chain: Chain) -> bool:
        """Whether every member still has this spec and this parent. Raises KubeError."""
        for member in chain.members:
            if not await self._confirms(member):
                return False
        return True

    async def _confirms(self, member: Runtime) -> bool:
        own = member.kind is RuntimeKind.NAMESPACED
        live: dict[str, Any] | None = await self.client.find(
            SERVING_RUNTIMES if own else CLUSTER_SERVING_RUNTIMES, member.name, member.namespace
        )
        if live is None:
            return False
        if own:
            self.namespaced.observe(live)
        else:
            self.cluster.observe(live)
        parent = (live["metadata"].get("annotations") or {}).get(keys.INHERIT_FROM, "")
        return (live["metadata"].get("uid"), live.get("spec") or {}, parent) == (
            member.uid,
            dict(member.spec),
            member.parent,
        )
