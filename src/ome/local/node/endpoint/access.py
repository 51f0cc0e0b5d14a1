"""Who may ask the node endpoint: holders of a client certificate of the cluster whom the cluster lets through.

As a kubelet decides it: a certificate names a user and, as organizations, groups; a SubjectAccessReview of
`nodes/proxy` says whether they may. Called by `server.py` for each request; TLS has verified the certificate before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.resources import Resource

SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
ALLOWED_FOR: Final = 300.0  # seconds that a yes is kept, and below a no, as a kubelet keeps them
DENIED_FOR: Final = 30.0
_MOST: Final = 1024  # answers kept at once


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a verified TLS connection."""

    name: str
    groups: tuple[str, ...] = ()


def peer_of(certificate: Mapping[str, Any] | None) -> Peer | None:
    """The identity in a certificate as `ssl` shows it, or None when it names nobody. Pure."""
    parts = [pair for rdn in (certificate or {}).get("subject", ()) for pair in rdn]
    name = next((value for key, value in parts if key == "commonName"), "")
    groups = tuple(value for key, value in parts if key == "organizationName")
    return Peer(name, groups) if name else None


class Access:
    """Asks the cluster, and remembers its answers for a while."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[tuple[Peer, str, str], tuple[bool, float]] = {}

    async def allows(self, peer: Peer, verb: str, node: str) -> bool:
        """Whether the peer may do `verb` on `nodes/proxy` of this node. Raises KubeError when nobody can say."""
        now = self._clock.monotonic()
        key = peer, verb, node
        known = self._known.get(key)
        if known is not None and now < known[1]:
            return known[0]
        allowed = await self._ask(peer, verb, node)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = allowed, now + (ALLOWED_FOR if allowed else DENIED_FOR)
        return allowed

    async def _ask(self, peer: Peer, verb: str, node: str) -> bool:
        attributes = {"verb": verb, "version": "v1", "resource": "nodes", "subresource": "proxy", "name": node}
        review = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {"user": peer.name, "groups": list(peer.groups), "resourceAttributes": attributes},
        }
        answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, review)
        return bool((answer.get("status") or {}).get("allowed"))
