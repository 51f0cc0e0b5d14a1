"""The plain way, where the kernel does not isolate: containers are children of this machine and share its network.

A pod then has a loopback address of its own to bind (`$(POD_IP)`); volumes that do not lie where the pod wants them are
refused. Each container has a shim for a parent that ends it when this process ends in whatever way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from ome.local.node.process.backend import Command, Launch, ServiceAddress, Stream
from ome.local.node.process.framing import read_frame, write_frame
from ome.local.node.process.logs import LogWriter

_FIRST_POD = int(IPv4Address("198.18.0.0"))
_FIRST_LOOPBACK = int(IPv4Address("127.64.0.0"))


@dataclass
class _Child:
    process: asyncio.subprocess.Process
    lifeline: int
    watching: asyncio.Task[None]


class PlainBackend:
    """Child processes of this one."""

    isolated = False

    def __init__(self) -> None:
        self.on_exit: Callable[[str, int], None] = lambda _key, _code: None
        self._children: dict[str, _Child] = {}

    def address(self, pod_ip: str) -> str:
        if sys.platform != "linux":
            return "127.0.0.1"
        return str(IPv4Address(_FIRST_LOOPBACK + int(IPv4Address(pod_ip)) - _FIRST_POD))

    async def prepare(self, uid: str, pod_ip: str, hostname: str) -> None:
        """Nothing is shared."""

    async def start(self, launch: Launch) -> None:
        for mount in launch.mounts:
            if not _same_place(mount.source, mount.target):
                raise OSError(
                    f"volume at {mount.target} cannot be mounted: this machine's kernel gives pods no file system view "
                    f"of their own; mount it at {mount.source}, or do without"
                )
        # The shim reads one end of this pipe and ends the container when the other closes, however that comes about.
        lifeline_in, lifeline_out = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ome.local.node.process.shim",
                str(lifeline_in),
                *launch.argv,
                env=dict(launch.environment),
                cwd=launch.working_folder or None,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=(lifeline_in,),
                start_new_session=True,
            )
        except OSError:
            os.close(lifeline_out)
            raise
        finally:
            os.close(lifeline_in)
        key = f"{launch.uid}/{launch.container}"
        watching = asyncio.create_task(self._watch(key, process, launch.log))
        self._children[key] = _Child(process, lifeline_out, watching)

    async def _watch(self, key: str, process: asyncio.subprocess.Process, log: Path) -> None:
        assert process.stdout is not None
        await LogWriter(log).follow(process.stdout)
        code = await process.wait()
        child = self._children.pop(key, None)
        if child is not None:
            os.close(child.lifeline)
        self.on_exit(key, code)

    async def signal(self, key: str, number: int) -> None:
        child = self._children.get(key)
        if child is None or child.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(child.process.pid, signal.SIGKILL)
            else:
                child.process.send_signal(number)

    async def command(self, key: str, argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> Command:
        if key not in self._children:
            raise OSError("the container is not running")
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=dict(environment),
            cwd=cwd or None,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        import socket

        mine, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs, limit=2**20)
        task = asyncio.create_task(_play(process, reader, writer))
        task.add_done_callback(lambda _: writer.close())
        outer = await asyncio.open_connection(sock=mine, limit=2**20)
        return Command(*outer)

    async def connect(self, pod_ip: str, port: int) -> Stream:
        return await asyncio.open_connection(self.address(pod_ip), port, limit=2**20)

    async def services(self, addresses: Sequence[ServiceAddress]) -> None:
        """Plain pods know no Service addresses: they share this machine's network and names."""

    async def destroy(self, uid: str) -> None:
        for key in [key for key in self._children if key.startswith(f"{uid}/")]:
            await self.signal(key, signal.SIGKILL)

    async def close(self) -> None:
        children = [*self._children.values()]
        for key in [*self._children]:
            await self.signal(key, signal.SIGKILL)
        await asyncio.gather(*(child.watching for child in children), return_exceptions=True)


def _same_place(source: str, target: str) -> bool:
    return Path(source).resolve() == Path(target).resolve()


async def _play(
    process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None

    async def feed(stdin: asyncio.StreamWriter) -> None:
        while frame := await read_frame(reader):
            if frame[0] == 0 and not frame[1]:
                break
            stdin.write(frame[1])
            with contextlib.suppress(ConnectionError):
                await stdin.drain()
        stdin.close()

    async def drain(stream: asyncio.StreamReader, channel: int) -> None:
        while data := await stream.read(65536):
            await write_frame(writer, channel, data)

    feeding = asyncio.create_task(feed(process.stdin))
    await asyncio.gather(drain(process.stdout, 1), drain(process.stderr, 2))
    code = await process.wait()
    feeding.cancel()
    await write_frame(writer, 3, str(code).encode())
