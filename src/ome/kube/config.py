"""Where a cluster is and how to prove who we are: kubeconfig files, exec plugins, in-cluster.

No network: only files are read here, and credential plugins run.

Follows the kubeconfig format (`v1`) and the exec credential protocol (`client.authentication.k8s.io/v1` and `v1beta1`).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from ome.kube.errors import ConfigError

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Credential:
    """What one request carries. A bearer token, or nothing; client certificates belong to the TLS context."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


class CredentialSource(Protocol):
    """Yields the credential to use now. `refresh` is True after a 401: what was cached is not good any more."""

    def credential(self, *, refresh: bool = False) -> Credential: ...


@dataclass(frozen=True, slots=True)
class StaticCredential:
    """A token or a client certificate that never changes."""

    value: Credential = field(default_factory=Credential)

    def credential(self, *, refresh: bool = False) -> Credential:
        return self.value


class TokenFile:
    """A token in a file that somebody renews (a projected one): read again every minute and after a 401."""

    def __init__(self, path: Path, max_age: float = 60.0) -> None:
        self._path = path
        self._max_age = timedelta(seconds=max_age)
        self._read_at: datetime | None = None
        self._token = ""

    def credential(self, *, refresh: bool = False) -> Credential:
        now = datetime.now(UTC)
        if refresh or self._read_at is None or now - self._read_at > self._max_age:
            try:
                self._token = self._path.read_text().strip()
            except OSError as error:
                raise ConfigError(f"cannot read the token file {self._path}: {error.strerror}") from error
            self._read_at = now
        return Credential(token=self._token)


class ExecCredential:
    """A credential plugin of the kubeconfig; runs the command when nothing valid is cached."""

    def __init__(self, spec: Mapping[str, Any], cluster: Mapping[str, Any]) -> None:
        self._spec = spec
        self._cluster = cluster
        self._cached: Credential | None = None
        self._expires: datetime | None = None

    def credential(self, *, refresh: bool = False) -> Credential:
        fresh = self._expires is None or datetime.now(UTC) < self._expires
        if self._cached is not None and fresh and not refresh:
            return self._cached
        status = self._run()
        self._cached = Credential(
            token=str(status.get("token") or ""),
            certificate=str(status.get("clientCertificateData") or "").encode(),
            key=str(status.get("clientKeyData") or "").encode(),
        )
        self._expires = _parse_time(status.get("expirationTimestamp"))
        return self._cached

    def _run(self) -> Mapping[str, Any]:
        import subprocess  # costs the plugin 10 ms; few users have an exec plugin

        command = [str(self._spec["command"]), *(str(arg) for arg in self._spec.get("args") or ())]
        api_version = str(self._spec.get("apiVersion") or "client.authentication.k8s.io/v1")
        info: dict[str, Any] = {"apiVersion": api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        if self._spec.get("provideClusterInfo"):
            info["spec"]["cluster"] = dict(self._cluster)
        environment = dict(os.environ)
        environment.update({str(e["name"]): str(e["value"]) for e in self._spec.get("env") or ()})
        environment["KUBERNETES_EXEC_INFO"] = json.dumps(info)
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
        except FileNotFoundError as error:
            hint = str(self._spec.get("installHint") or "").strip()
            raise ConfigError(f"credential plugin {command[0]} not found. {hint}".strip()) from error
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"credential plugin {command[0]} did not answer within 60 s") from error
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()[-500:]
            raise ConfigError(f"credential plugin {command[0]} failed with exit code {done.returncode}: {said}")
        try:
            answer = json.loads(done.stdout)
            status = answer["status"]
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"credential plugin {command[0]} printed no ExecCredential with a status") from error
        if not isinstance(status, dict):
            raise ConfigError(f"credential plugin {command[0]} printed no ExecCredential with a status")
        return status


@dataclass(frozen=True)
class ClusterConfig:
    """One cluster as one user: everything a transport needs."""

    server: str
    credentials: CredentialSource = field(default_factory=StaticCredential)
    ca_data: bytes = b""
    insecure: bool = False
    server_name: str = ""
    certificate: bytes = b""
    key: bytes = b""
    namespace: str = "default"
    context: str = ""
    user: str = ""
    impersonate_user: str = ""
    impersonate_groups: Sequence[str] = ()
    impersonate_uid: str = ""
    impersonate_extra: Sequence[tuple[str, str]] = ()
    proxy_url: str = ""

    @classmethod
    def load(
        cls, kubeconfig: str | None = None, context: str | None = None, *, cluster: str = "", user: str = ""
    ) -> ClusterConfig:
        """The context of a kubeconfig: the given file, else `KUBECONFIG` (a path list), else `~/.kube/config`.

        `cluster` and `user` replace the ones the context names. Raises ConfigError, naming what is missing.
        """
        return _from_kubeconfig(_read_kubeconfigs(kubeconfig), context, cluster, user)

    @classmethod
    def in_cluster(cls) -> ClusterConfig:
        """The ServiceAccount of the pod this process runs in. Raises ConfigError outside a pod."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not (SERVICE_ACCOUNT_DIR / "token").exists():
            raise ConfigError("not in a cluster: no ServiceAccount token is mounted")
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        namespace_file = SERVICE_ACCOUNT_DIR / "namespace"
        return cls(
            server=server,
            credentials=TokenFile(SERVICE_ACCOUNT_DIR / "token"),
            ca_data=(SERVICE_ACCOUNT_DIR / "ca.crt").read_bytes(),
            namespace=namespace_file.read_text().strip() if namespace_file.exists() else "default",
        )

    @classmethod
    def discover(cls, kubeconfig: str | None = None, context: str | None = None) -> ClusterConfig:
        """In a pod its ServiceAccount, else the kubeconfig; a kubeconfig that is named always wins."""
        if kubeconfig or context or os.environ.get("KUBECONFIG"):
            return cls.load(kubeconfig, context)
        try:
            return cls.in_cluster()
        except ConfigError:
            return cls.load()

    def impersonating(self, user: str, groups: Sequence[str] = ()) -> ClusterConfig:
        """The same cluster, acting as somebody else."""
        return replace(self, impersonate_user=user, impersonate_groups=tuple(groups))

    def headers(self, *, refresh: bool = False) -> list[tuple[str, str]]:
        """The headers that say who we are. May run a credential plugin; raises ConfigError."""
        found = []
        token = self.credentials.credential(refresh=refresh).token
        if token:
            found.append(("authorization", f"Bearer {token}"))
        if self.impersonate_user:
            found.append(("impersonate-user", self.impersonate_user))
            found += [("impersonate-group", group) for group in self.impersonate_groups]
            if self.impersonate_uid:
                found.append(("impersonate-uid", self.impersonate_uid))
            found += [(f"impersonate-extra-{quote(key, safe='')}", value) for key, value in self.impersonate_extra]
        return found

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context, or None for a plain-http server. Raises ConfigError for unusable certificates."""
        if self.server.startswith("http://"):
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.ca_data:
            try:
                context.load_verify_locations(cadata=self.ca_data.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError) as error:
                raise ConfigError(f"the certificate authority of {self.server} is not readable") from error
        else:
            context.load_default_certs()
        credential = self.credentials.credential()
        certificate, key = (
            (self.certificate, self.key) if self.certificate else (credential.certificate, credential.key)
        )
        if certificate:
            _load_client_certificate(context, certificate, key)
        return context


def _load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    import tempfile

    # ssl reads client certificates from files only; the file is ours alone and gone a moment later.
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(name)
    except ssl.SSLError as error:
        raise ConfigError("the client certificate and key do not fit together or are not readable") from error
    finally:
        Path(name).unlink(missing_ok=True)


def _parse_time(value: Any) -> datetime | None:
    if not isinstance(value, str) or not value:
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError as error:
        raise ConfigError(f"credential plugin printed an unreadable expirationTimestamp {value!r}") from error


def _kubeconfig_paths(kubeconfig: str | None) -> list[Path]:
    if kubeconfig:
        return [Path(kubeconfig).expanduser()]
    listed = os.environ.get("KUBECONFIG", "")
    if listed:
        return [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    return [Path.home() / ".kube" / "config"]


def _read_kubeconfigs(kubeconfig: str | None) -> dict[str, Any]:
    """Merge the files: the first to name a cluster, user, context or current-context wins."""
    merged: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": ""}
    paths = _kubeconfig_paths(kubeconfig)
    found = False
    for path in paths:
        try:
            text = path.read_text()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"cannot read kubeconfig {path}: {error.strerror}") from error
        found = True
        document = _parsed(text, path) or {}
        if not isinstance(document, dict):
            raise ConfigError(f"kubeconfig {path} is not a kubeconfig")
        for section, entry in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for item in document.get(section) or ():
                value = dict(item.get(entry) or {}, **{"#base": path.parent})
                merged[section].setdefault(str(item.get("name")), value)
        merged["current-context"] = merged["current-context"] or str(document.get("current-context") or "")
    if not found:
        raise ConfigError(f"no kubeconfig found at {os.pathsep.join(map(str, paths))}")
    return merged


def _parsed(text: str, path: Path) -> Any:
    """What a kubeconfig says. Many programs write it as JSON, and reading that spares the import of yaml: 10 ms."""
    if text.startswith("{"):
        with contextlib.suppress(ValueError):  # YAML in flow style
            return json.loads(text)
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ConfigError(f"kubeconfig {path} is not YAML: {str(error).splitlines()[0]}") from error


def _data(entry: Mapping[str, Any], name: str) -> bytes:
    inline = entry.get(f"{name}-data")
    if inline:
        try:
            return base64.b64decode(str(inline), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{name}-data of the kubeconfig is not base64") from error
    if not entry.get(name):
        return b""
    path = Path(entry["#base"], Path(str(entry[name])).expanduser())
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {name} {path}: {error.strerror}") from error


def _from_kubeconfig(
    document: Mapping[str, Any], context: str | None, cluster_name: str = "", user_name: str = ""
) -> ClusterConfig:
    name = context or document["current-context"]
    if not name:
        raise ConfigError("the kubeconfig has no current-context; name one with --context")
    chosen = document["contexts"].get(name)
    if chosen is None:
        raise ConfigError(f'context "{name}" does not exist')
    cluster_name = cluster_name or str(chosen.get("cluster"))
    cluster = document["clusters"].get(cluster_name)
    if cluster is None or not cluster.get("server"):
        raise ConfigError(f'cluster "{cluster_name}" of context "{name}" does not exist')
    if user_name and user_name not in document["users"]:
        raise ConfigError(f'auth info "{user_name}" does not exist')
    user_name = user_name or str(chosen.get("user") or "")
    user = document["users"].get(user_name, {"#base": Path()})
    return ClusterConfig(
        server=str(cluster["server"]).rstrip("/"),
        credentials=_credentials(user, cluster),
        ca_data=_data(cluster, "certificate-authority"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
        certificate=_data(user, "client-certificate"),
        key=_data(user, "client-key"),
        namespace=str(chosen.get("namespace") or "default"),
        context=name,
        user=user_name,
        impersonate_user=str(user.get("as") or ""),
        impersonate_groups=tuple(user.get("as-groups") or ()),
        proxy_url=str(cluster.get("proxy-url") or ""),
    )


def _credentials(user: Mapping[str, Any], cluster: Mapping[str, Any]) -> CredentialSource:
    if user.get("token"):
        return StaticCredential(Credential(token=str(user["token"])))
    if user.get("tokenFile"):
        return TokenFile(Path(user["#base"], Path(str(user["tokenFile"])).expanduser()))
    if user.get("exec"):
        shown = {key: value for key, value in cluster.items() if key != "#base"}
        return ExecCredential(user["exec"], shown)
    return StaticCredential()
