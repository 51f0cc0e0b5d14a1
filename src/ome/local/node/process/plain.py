"""The plain way, where the kernel does not isolate: containers are children of this machine and share its network.

A pod then has a loopback address of its own to bind (`$(POD_IP)`); volumes that do not lie where the pod wants them are
refused, but for the ServiceAccount's token, which is left out.
Each container has a shim for a parent that ends it when this process ends in whatever way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from ome.local.node.process import sessions
from ome.local.node.process.backend import Command, Launch, ServiceAddress, Stream
from ome.local.node.process.logs import LogWriter
from ome.local.node.process.volumes import TOKEN_FOLDER

_FIRST_POD = int(IPv4Address("198.18.0.0"))
_FIRST_LOOPBACK = int(IPv4Address("127.64.0.0"))


@dataclass
class _Child:
    process: asyncio.subprocess.Process
    lifeline: int
    output: sessions.Output
    input: sessions.Input
    stdin_once: bool
    ended: asyncio.Future[int]
    watching: asyncio.Task[None] | None = None


class PlainBackend:
    """Child processes of this one."""

    isolated = False

    def __init__(self) -> None:
        self.on_exit: Callable[[str, int], None] = lambda _key, _code: None
        self._children: dict[str, _Child] = {}
        self._commands: dict[str, set[int]] = {}  # the process groups of commands in a container
        self._talks: set[asyncio.Task[None]] = set()

    def address(self, pod_ip: str) -> str:
        if sys.platform != "linux":
            return "127.0.0.1"
        return str(IPv4Address(_FIRST_LOOPBACK + int(IPv4Address(pod_ip)) - _FIRST_POD))

    async def prepare(self, uid: str, pod_ip: str, hostname: str) -> None:
        """Nothing is shared."""

    async def start(self, launch: Launch) -> None:
        for mount in launch.mounts:
            # Every pod gets a token it did not ask for; few use it, and none should fail for it.
            if mount.target != TOKEN_FOLDER and not _same_place(mount.source, mount.target):
                raise OSError(
                    f"volume at {mount.target} cannot be mounted: this machine's kernel gives pods no file system view "
                    f"of their own; mount it at {mount.source}, or do without"
                )
        ends = sessions.Ends.of(tty=launch.tty, stdin=launch.stdin, merged=True)
        process, lifeline = await _start(launch.argv, launch.environment, launch.working_folder, ends)
        typed, outputs = await ends.ours()
        key = f"{launch.uid}/{launch.container}"
        output = sessions.Output(LogWriter(launch.log))
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        child = _Child(process, lifeline, output, typed, launch.stdin_once, ended)
        self._children[key] = child
        child.watching = asyncio.create_task(self._watch(key, child, outputs[sessions.STDOUT]))

    async def _watch(self, key: str, child: _Child, said: asyncio.StreamReader) -> None:
        logging = asyncio.ensure_future(child.output.follow(said))
        code = await child.process.wait()
        _end_group(child.process.pid)
        for command in self._commands.pop(key, ()):
            _end_group(command)
        await asyncio.wait([logging], timeout=sessions.LAST_WORDS)
        child.input.close()
        self._children.pop(key, None)
        os.close(child.lifeline)
        child.ended.set_result(code)
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

    async def command(
        self, key: str, argv: Sequence[str], environment: Mapping[str, str], cwd: str, *, tty: bool = False
    ) -> Command:
        if key not in self._children:
            raise OSError("the container is not running")
        ends = sessions.Ends.of(tty=tty, stdin=True, merged=False)
        process, lifeline = await _start(argv, environment, cwd, ends)
        typed, outputs = await ends.ours()
        self._commands.setdefault(key, set()).add(process.pid)

        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ended = asyncio.ensure_future(process.wait())
            try:
                await sessions.run_command(reader, writer, typed, outputs, ended)
            finally:
                # Who asked may be gone before the command is: its end is awaited all the same.
                await ended
                _end_group(process.pid)
                self._commands.get(key, set()).discard(process.pid)
                os.close(lifeline)

        return await self._talk(play)

    async def attach(self, key: str, *, stdin: bool) -> Command:
        child = self._children.get(key)
        if child is None:
            raise OSError("the container is not running")

        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            once = stdin and child.stdin_once
            await sessions.attach(reader, writer, child.input, child.output, child.ended, once=once)

        return await self._talk(play)

    async def _talk(self, play: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> Command:
        """Frames over a pair of sockets, as the relay of isolated pods has them."""
        mine, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs, limit=2**20)

        async def run() -> None:
            try:
                await play(reader, writer)
                await sessions.see_off(reader)
            finally:
                writer.close()

        task = asyncio.create_task(run())
        self._talks.add(task)
        task.add_done_callback(self._talks.discard)
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
        await asyncio.gather(*(child.watching for child in children if child.watching), return_exceptions=True)
        await asyncio.gather(*self._talks, return_exceptions=True)


async def _start(
    argv: Sequence[str], environment: Mapping[str, str], cwd: str, ends: sessions.Ends
) -> tuple[asyncio.subprocess.Process, int]:
    """Start a shim that runs `argv`, and the lifeline that it holds on to. Raises OSError."""
    # The shim reads one end of this pipe and ends the command when the other closes, however that comes about.
    lifeline_in, lifeline_out = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ome.local.node.process.shim",
            str(lifeline_in),
            *argv,
            env=dict(environment),
            cwd=cwd or None,
            stdin=ends.theirs[0],
            stdout=ends.theirs[1],
            stderr=ends.theirs[2],
            pass_fds=(lifeline_in,),
            start_new_session=True,
        )
    except OSError:
        os.close(lifeline_out)
        ends.drop()
        raise
    finally:
        os.close(lifeline_in)
    return process, lifeline_out


def _end_group(pid: int) -> None:
    """End what a process left running in its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _same_place(source: str, target: str) -> bool:
    return Path(source).resolve() == Path(target).resolve()
