"""Runtime profiles: shared memory, probes and observability by one annotation each."""

from __future__ import annotations

from typing import Any, Final

from ome.admission.pods.draft import PodDenied, PodDraft
from ome.api import keys
from ome.api.names import MAIN_CONTAINER

DEFAULT_PORT: Final = "30000"
_SHM_PATH: Final = "/dev/shm"
_PROBES: Final[dict[str, dict[str, int]]] = {
    "startupProbe": {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 180},
    "readinessProbe": {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
    "livenessProbe": {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
}


def apply_profiles(draft: PodDraft) -> None:
    """Raises `PodDenied` for an unknown profile or an invalid port; a missing container is skipped."""
    container = draft.annotations.get(keys.RUNTIME_CONTAINER_NAME, MAIN_CONTAINER)
    _shared_memory(draft, container)
    _probes(draft, container)
    _observability(draft)


def _profile(draft: PodDraft, key: str, *known: str) -> str:
    value = draft.annotations.get(key, "")
    if value and value not in known:
        raise PodDenied(f'unknown profile "{value}" in annotation {key}; known: {", ".join(known)}')
    return value


def _port(draft: PodDraft, key: str) -> int:
    text = draft.annotations.get(key, DEFAULT_PORT)
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= 65535:
        raise PodDenied(f'annotation {key} must be a port from 1 to 65535, got "{text}"')
    return number


def _shared_memory(draft: PodDraft, container: str) -> None:
    if not _profile(draft, keys.SHM_PROFILE, "default") or draft.container(container) is None:
        return
    mounted = (draft.container(container) or {}).get("volumeMounts") or []
    if any(mount.get("mountPath") == _SHM_PATH for mount in mounted):
        return
    draft.add_volumes([{"name": "dshm", "emptyDir": {"medium": "Memory"}}])
    draft.add_mounts(container, [{"name": "dshm", "mountPath": _SHM_PATH}])


def _probes(draft: PodDraft, container: str) -> None:
    if not _profile(draft, keys.PROBE_PROFILE, "sglang-http", "vllm-http"):
        return
    port = _port(draft, keys.PROBE_PORT)
    existing = draft.container(container)
    if existing is None:
        return
    check: dict[str, Any] = {"httpGet": {"path": "/health", "port": port}}
    missing = {name: {**check, **timing} for name, timing in _PROBES.items() if existing.get(name) is None}
    if missing:
        draft.set_container(container, missing)


def _observability(draft: PodDraft) -> None:
    if not _profile(draft, keys.OBSERVABILITY_PROFILE, "prometheus"):
        return
    port = _port(draft, keys.OBSERVABILITY_PORT)
    draft.annotations.setdefault(keys.PROMETHEUS_SCRAPE, "true")
    draft.annotations.setdefault(keys.PROMETHEUS_PORT, str(port))
    draft.annotations.setdefault(keys.PROMETHEUS_PATH, "/metrics")
