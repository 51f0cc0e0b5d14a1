"""What goes into the API server and what comes out: requests and answers without sockets.

`serve.py` makes them from HTTP, `ome.local.inprocess` from the client's requests. Also the protocols of what is plugged
in from outside: logs, exec and port-forward come from whoever runs the pods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class User:
    """Who asks: the result of authentication. `extra` maps keys to lists, as in a UserInfo."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def info(self) -> dict[str, Any]:
        """The UserInfo object of reviews."""
        out: dict[str, Any] = {"username": self.name}
        if self.uid:
            out["uid"] = self.uid
        if self.groups:
            out["groups"] = list(self.groups)
        if self.extra:
            out["extra"] = {key: list(values) for key, values in self.extra.items()}
        return out


@dataclass(slots=True)
class HttpRequest:
    """method in capitals; path still percent-encoded; query without `?`; header names in lower case.

    certificate: the identity of a verified client certificate (CN as name, O as groups), or None.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    certificate: User | None = None


class WebSocket(Protocol):
    """The server's end of an upgraded connection; messages are binary."""

    protocol: str | None

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> bytes | None:
        """The next message, or None when the peer has closed."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Answer of exec, attach and port-forward: the sub-protocols offered and who talks once one is chosen."""

    protocols: tuple[str, ...]
    run: Callable[[WebSocket], Awaitable[None]]


@dataclass(slots=True)
class HttpResponse:
    """status, headers (lower-case names) and a body: bytes, or an iterator of chunks that the transport must aclose().

    With `upgrade` set (status 101) the transport makes a WebSocket and hands it to `upgrade.run`.
    """

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] = b""
    warnings: tuple[str, ...] = ()
    upgrade: Upgrade | None = None

    def header_items(self) -> list[tuple[str, str]]:
        """Headers as pairs, a `warning` header for each warning."""
        items = list(self.headers.items())
        items += [("warning", f'299 - "{_escaped(text)}"') for text in self.warnings]
        return items


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The query of pods/log. limit_bytes, tail_lines, since_seconds: None when not given."""

    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: str | None = None
    limit_bytes: int | None = None


class LogSource(Protocol):
    """Whoever holds the logs of a pod's containers."""

    def logs(self, pod: dict[str, Any], options: LogOptions) -> AsyncIterator[bytes]:
        """Chunks of log text; raises errors.Problem when the container has none."""


@dataclass(frozen=True, slots=True)
class ExecOptions:
    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    attach: bool = False


class ExecSource(Protocol):
    """Whoever can run a command in a pod's container, attach to it, or reach its ports."""

    def exec(self, pod: dict[str, Any], options: ExecOptions) -> Upgrade: ...

    def port_forward(self, pod: dict[str, Any], ports: Sequence[int]) -> Upgrade: ...
