"""What runs containers: the protocol that the isolated and the plain way fulfil. Known by `runtime` only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ome.local.node.process.rootfs import Mount

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Launch:
    """One container to start. `argv` and `environment` are final; `mounts` name files and folders of this machine."""

    uid: str
    container: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    mounts: Sequence[Mount] = ()
    working_folder: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


@dataclass(slots=True)
class Command:
    """A command inside a running container, or the container itself: frames of `framing` on a stream."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """A Service as pods reach it. `names` go into their hosts file; endpoint address "" is the API server."""

    ip: str
    port: int
    endpoints: Sequence[tuple[str, int]]
    names: Sequence[str] = field(default_factory=tuple)


class Backend(Protocol):
    """Starts and ends processes. Containers are known by `uid/container`."""

    on_exit: Callable[[str, int], None]  # (key, exit code; negative: the signal that ended it)

    @property
    def isolated(self) -> bool:
        """Whether pods have a network and a file system view of their own."""
        ...

    def address(self, pod_ip: str) -> str:
        """The address at which the pod's processes see themselves (`$(POD_IP)`)."""
        ...

    async def prepare(self, uid: str, pod_ip: str, hostname: str) -> None:
        """Make what the pod's containers share. Raises OSError."""
        ...

    async def start(self, launch: Launch) -> None:
        """Start a container. Raises OSError with a text for the user."""
        ...

    async def signal(self, key: str, number: int) -> None:
        """Send a signal; a container that is gone is no error."""
        ...

    async def command(
        self, key: str, argv: Sequence[str], environment: Mapping[str, str], cwd: str, *, tty: bool = False
    ) -> Command:
        """Run a command in a running container. Raises OSError."""
        ...

    async def attach(self, key: str, *, stdin: bool) -> Command:
        """What a running container says from now on, and with `stdin` its input if it has one. Raises OSError."""
        ...

    async def connect(self, pod_ip: str, port: int) -> Stream:
        """A connection to a pod's port. Raises OSError when it is refused."""
        ...

    async def services(self, addresses: Sequence[ServiceAddress]) -> None:
        """The Services that pods can reach, as they are now."""
        ...

    async def destroy(self, uid: str) -> None:
        """End all processes of a pod and let go of what they shared."""
        ...

    async def close(self) -> None:
        """End everything."""
        ...
