"""One connection to one cluster, and every read the tool makes: bounded in pages, in seconds a request, and in
seconds overall.

Not a cache: what is read twice is asked twice. Commands call it; decisions never see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ome.cli.app import App
from ome.cli.errors import DEADLINE_EXCEEDED, CliError
from ome.cli.flags import GlobalFlags, parse_request_timeout
from ome.kube import requests
from ome.kube.config import ClusterConfig, Credential, StaticCredential
from ome.kube.errors import ApiError, ConfigError, KubeError, TransportError
from ome.kube.requests import PatchType, Request
from ome.kube.resources import Resource
from ome.kube.sync import SyncClient

PAGE = 500
NO_LIMIT = 7 * 86400.0

_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 408: "Timeout", 504: "Timeout"}


@dataclass(frozen=True, slots=True)
class Collection:
    """A bounded listing: the items in the server's order, what it cost, and whether more were there."""

    items: list[dict[str, Any]]
    pages: int
    requests: int
    truncated: bool
    resource_version: str = ""


def reason_of(error: KubeError) -> str:
    """One word for a failed read: Unauthorized, Forbidden, NotFound, Timeout or Unavailable."""
    if isinstance(error, ApiError):
        return _REASONS.get(error.status_code, "Unavailable")
    return "Timeout" if "timed out" in str(error) else "Unavailable"


def is_missing_api(error: KubeError) -> bool:
    """A 404 that names no object: the resource itself is not served."""
    return isinstance(error, ApiError) and error.status_code == 404 and not error.details.get("name")


def _file(path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"unable to read {path}: {error.strerror}") from error


def _base_config(flags: GlobalFlags) -> ClusterConfig:
    try:
        return ClusterConfig.load(
            flags.kubeconfig or None, flags.context or None, cluster=flags.cluster, user=flags.user
        )
    except ConfigError:
        if flags.kubeconfig or flags.context or flags.cluster or flags.user:
            raise
        if flags.server:
            return ClusterConfig(server=flags.server.rstrip("/"))
        try:
            return ClusterConfig.in_cluster()
        except ConfigError:
            pass
        raise


def cluster_config(flags: GlobalFlags) -> ClusterConfig:
    """The cluster and identity that the flags, the kubeconfig and the pod's own account say, in that order. Raises
    ConfigError.
    """
    config = _base_config(flags)
    changes: dict[str, Any] = {}
    if flags.server:
        changes["server"] = flags.server.rstrip("/")
    if flags.token:
        changes["credentials"] = StaticCredential(Credential(token=flags.token))
    if flags.certificate_authority:
        changes["ca_data"] = _file(flags.certificate_authority)
    if flags.client_certificate:
        changes["certificate"] = _file(flags.client_certificate)
    if flags.client_key:
        changes["key"] = _file(flags.client_key)
    if flags.tls_server_name:
        changes["server_name"] = flags.tls_server_name
    if flags.insecure_skip_tls_verify:
        changes["insecure"] = True
    if flags.impersonate:
        changes["impersonate_user"] = flags.impersonate
    if flags.as_group:
        changes["impersonate_groups"] = flags.as_group
    if flags.as_uid:
        changes["impersonate_uid"] = flags.as_uid
    if flags.as_user_extra:
        pairs = [entry.partition("=") for entry in flags.as_user_extra]
        changes["impersonate_extra"] = tuple((key, value) for key, _, value in pairs)
    return replace(config, **changes) if changes else config


class Session:
    """Reads and the one guarded patch, with the caller's identity.

    `per_request` bounds every request, `overall` everything this session does; both in seconds, from now. Failures
    are the `ome.kube.errors` tree; an overall limit that is over is the CliError `context deadline exceeded`.
    """

    def __init__(self, app: App, config: ClusterConfig, *, per_request: float = 0.0, overall: float = 0.0) -> None:
        asked = parse_request_timeout(app.flags.request_timeout)
        limits = [limit for limit in (per_request, asked) if limit > 0]
        self._limit = min(limits, default=NO_LIMIT)
        self._time = app.time
        self._ends = app.time.monotonic() + overall if overall > 0 else None
        self._client = SyncClient(config, timeout=self._limit)
        self.config = config
        self.context = app.flags.context or config.context
        self.namespace = app.flags.namespace or config.namespace or "default"

    @classmethod
    def open(cls, app: App, *, per_request: float = 0.0, overall: float = 0.0) -> Session:
        """The session of a reading command; a kubeconfig that cannot be used is its message."""
        try:
            return cls(app, cluster_config(app.flags), per_request=per_request, overall=overall)
        except ConfigError as error:
            raise CliError(str(error)) from error

    def remaining(self) -> float:
        """Seconds until the overall limit; raises when it is over."""
        if self._ends is None:
            return NO_LIMIT
        left = self._ends - self._time.monotonic()
        if left <= 0:
            raise CliError(DEADLINE_EXCEEDED)
        return left

    def send(self, request: Request) -> Any:
        """The decoded JSON answer."""
        bounded = replace(request, timeout=min(self._limit, self.remaining()))
        try:
            return self._client.json(bounded)
        except TransportError:
            # A request that was cut by the overall limit is that limit's failure, not the network's.
            self.remaining()
            raise

    def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        found: dict[str, Any] = self.send(requests.get(resource, name, namespace))
        return found

    def find(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any] | None:
        """The object, or None when it does not exist."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as error:
            if error.status_code == 404 and not is_missing_api(error):
                return None
            raise

    def listing(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        page: int = PAGE,
        pages: int = 2,
    ) -> Collection:
        """At most `pages` pages of `page` items. An expired continue token keeps what was read and says truncated."""
        found: list[dict[str, Any]] = []
        token, version = "", ""
        for number in range(pages):
            answer = self.send(
                requests.list_page(
                    resource,
                    namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    limit=page,
                    continue_token=token,
                )
            )
            meta = answer.get("metadata") or {}
            found += [item for item in answer.get("items") or [] if isinstance(item, dict)]
            token, version = str(meta.get("continue") or ""), str(meta.get("resourceVersion") or "")
            if not token or len(found) >= page * pages:
                return Collection(found[: page * pages], number + 1, number + 1, bool(token), version)
        return Collection(found, pages, pages, bool(token), version)

    def json_patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        operations: list[dict[str, Any]],
        *,
        dry_run: bool,
        subresource: str = "",
    ) -> Any:
        """The one write a guarded action makes; sent once."""
        return self.send(
            requests.patch(
                resource, name, namespace, operations, type=PatchType.JSON, subresource=subresource, dry_run=dry_run
            )
        )

    def lines(self, request: Request, *, seconds: float | None = None) -> Iterator[bytes]:
        """The lines of a stream on a connection of its own; silent for at most `seconds`."""
        return self._client.stream_lines(replace(request, timeout=seconds or NO_LIMIT))

    def close(self) -> None:
        self._client.close()
