"""RDMA profiles: what a container needs to talk over InfiniBand or RoCE. Never a privileged container."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from ome.admission.pods.draft import PodDenied, PodDraft
from ome.api import keys
from ome.api.names import MAIN_CONTAINER

NETWORKS_ANNOTATION: Final = "k8s.v1.cni.cncf.io/networks"
DEFAULT_PROFILE: Final = "oci-roce"
_CAPABILITY: Final = "IPC_LOCK"
_DEVICES: Final = "/dev/infiniband"


@dataclass(frozen=True, slots=True)
class Profile:
    env: dict[str, str] = field(default_factory=dict)
    devices: bool = True
    networks: tuple[tuple[str, str], ...] = ()
    """Multus attachments, (namespace, name)."""


_OCI_ROCE: Final = Profile(
    env={
        "GLOO_SOCKET_IFNAME": "eth0",
        "HCOLL_ENABLE_MCAST_ALL": "0",
        "IB_RX_QUEUE_LEN": "8192",
        "NCCL_CROSS_NIC": "2",
        "NCCL_CUMEM_ENABLE": "0",
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_HCA": "=" + ",".join(f"mlx5_{port}" for port in (0, 1, *range(3, 11), *range(12, 18))),
        "NCCL_IB_QPS_PER_CONNECTION": "16",
        "NCCL_IB_SL": "0",
        "NCCL_IB_SPLIT_DATA_ON_QPS": "0",
        "NCCL_IB_TC": "41",
        "NCCL_IB_TIMEOUT": "22",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
        "NCCL_NET_PLUGIN": "none",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_NTHREADS": "16",
        "RX_QUEUE_LEN": "8192",
        "UCX_NET_DEVICES": "eth0",
        "UCX_TLS": "tcp",
        "coll_hcoll_enable": "0",
    }
)
_GB_SGLANG: Final = Profile(
    env={
        "GLOO_SOCKET_FAMILY": "AF_INET6",
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_FAMILY": "AF_INET6",
        "NCCL_SOCKET_IFNAME": "eth0",
    }
)
_GB_RDMA: Final = Profile(
    devices=False,
    networks=tuple(("cw-multus", f"ibs{hca}p{port}-macvlan") for hca in range(4) for port in range(4)),
)


def _profiles() -> dict[str, Profile]:
    return {DEFAULT_PROFILE: _OCI_ROCE, "cks-gb-sglang": _GB_SGLANG, "cks-gb-rdma": _GB_RDMA}


def inject_rdma(draft: PodDraft) -> None:
    """Apply the named profile to the named container; a missing container is skipped. Raises `PodDenied`."""
    if not draft.asks(keys.RDMA_AUTO_INJECT):
        return
    name = draft.annotations.get(keys.RDMA_PROFILE, DEFAULT_PROFILE)
    profile = _profiles().get(name)
    if profile is None:
        known = ", ".join(_profiles())
        raise PodDenied(f'unknown RDMA profile "{name}" in annotation {keys.RDMA_PROFILE}; known are {known}')
    if profile.networks:
        _attach(draft, profile)
    container = draft.annotations.get(keys.RDMA_CONTAINER_NAME, MAIN_CONTAINER)
    if draft.container(container) is None:
        return
    draft.add_env(container, profile.env)
    if profile.devices:
        _open_devices(draft, container)


def _open_devices(draft: PodDraft, container: str) -> None:
    draft.add_volumes(
        [{"name": "dshm", "emptyDir": {"medium": "Memory"}}, {"name": "devinf", "hostPath": {"path": _DEVICES}}]
    )
    draft.add_mounts(
        container,
        [{"name": "dshm", "mountPath": "/dev/shm"}, {"name": "devinf", "mountPath": _DEVICES}],
    )
    security = dict((draft.container(container) or {}).get("securityContext") or {})
    capabilities = dict(security.get("capabilities") or {})
    added = capabilities.get("add") or []
    if _CAPABILITY not in added:
        security["capabilities"] = {**capabilities, "add": [*added, _CAPABILITY]}
        draft.set_container(container, {"securityContext": security})


def _attach(draft: PodDraft, profile: Profile) -> None:
    text = draft.annotations.get(NETWORKS_ANNOTATION, "").strip()
    wanted = [{"name": name, "namespace": namespace} for namespace, name in profile.networks]
    if text.startswith("["):
        existing = _parsed(text)
        names = {(entry.get("namespace"), entry.get("name")) for entry in existing}
        merged = existing + [entry for entry in wanted if (entry["namespace"], entry["name"]) not in names]
        draft.annotations[NETWORKS_ANNOTATION] = json.dumps(merged, separators=(",", ":"))
        return
    listed = [part.strip() for part in text.split(",")] if text else []
    if any(not part for part in listed):
        raise PodDenied(f'annotation {NETWORKS_ANNOTATION} "{text}" holds an empty attachment')
    present = {part.partition("@")[0] for part in listed}
    added = [f"{entry['namespace']}/{entry['name']}" for entry in wanted]
    draft.annotations[NETWORKS_ANNOTATION] = ",".join([*listed, *(part for part in added if part not in present)])


def _parsed(text: str) -> list[dict[str, Any]]:
    try:
        existing = json.loads(text)
    except ValueError as error:
        raise PodDenied(f"annotation {NETWORKS_ANNOTATION} is not valid JSON: {error}") from error
    if not all(isinstance(entry, dict) and entry.get("name") for entry in existing):
        raise PodDenied(f"annotation {NETWORKS_ANNOTATION} must be a list of attachments with names")
    attachments: list[dict[str, Any]] = existing
    return attachments
