"""The isolated way: orders for the supervisor, which is the parent of all containers (Linux with user namespaces).

Somebody may kill the supervisor. The kernel then ends every container; here their ends are told, another supervisor is
started, and the pods' networks are made again, so that the kubelet restarts what should run.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ome.local.node.process.backend import Command, Launch, ServiceAddress, Stream
from ome.local.node.process.framing import short_path

START_LIMIT = 10.0  # seconds
START_AGAIN = 1.0  # seconds until another supervisor is tried, when one does not start

log = logging.getLogger("ome.local.node.isolated")


class IsolatedBackend:
    """One supervisor and the sockets to it."""

    isolated = True

    def __init__(self, folder: Path) -> None:
        """`folder` holds the sockets and the containers' root folders; it may be deep."""
        self.on_exit: Callable[[str, int], None] = lambda _key, _code: None
        self._folder = folder
        self._next = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._api: asyncio.Server | None = None
        self._closing = False
        self._whole = asyncio.Event()  # the supervisor is there, and knows all pods and Services
        self._recovering: asyncio.Task[None] | None = None
        self._sandboxes: dict[str, tuple[str, str]] = {}
        self._running: set[str] = set()
        self._services: list[dict[str, Any]] = []

    async def open(self, api_server: tuple[str, int] | None) -> None:
        """Start the supervisor. Raises OSError, with the kernel's reason, where isolated pods are not possible."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in ("relay.sock", "api.sock"):
            (self._folder / name).unlink(missing_ok=True)
        for root in (self._folder / "roots").glob("*"):
            root.rmdir()  # left by a stand-in that was killed while it started a container
        await self._launch()
        if api_server is not None:
            await self._relay_api(*api_server)
        self._whole.set()

    async def _launch(self) -> None:
        mine, theirs = socket.socketpair()
        said = os.open(self._folder / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.ftruncate(said, 0)
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ome.local.node.process.supervisor",
                str(theirs.fileno()),
                str(self._folder),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(said)
        reader, self._writer = await asyncio.open_connection(sock=mine)
        try:
            async with asyncio.timeout(START_LIMIT):
                first = await reader.readline()
        except TimeoutError:
            first = b""
        if not first:
            await self._end()
            words = (self._folder / "supervisor.log").read_text(errors="replace").strip()
            raise OSError(words.splitlines()[-1] if words else "the supervisor did not start")
        self._reading = asyncio.create_task(self._read(reader))

    async def _relay_api(self, host: str, port: int) -> None:
        """Pods reach the API server through a socket here: their networks know only pods."""
        from ome.local.node.process.framing import pump

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                server = await asyncio.open_connection(host, port)
            except OSError:
                writer.close()
                return
            await pump(reader, writer, *server)

        with short_path(self._folder / "api.sock") as path:
            self._api = await asyncio.start_unix_server(accept, path)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            message = json.loads(line)
            if message.get("event") == "exit":
                self._running.discard(str(message["key"]))
                self.on_exit(str(message["key"]), int(message["code"]))
                continue
            waiting = self._waiting.pop(message.get("id", -1), None)
            if waiting is None or waiting.done():
                continue
            if "error" in message:
                waiting.set_exception(OSError(str(message["error"])))
            else:
                waiting.set_result(message.get("ok"))
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(OSError("the supervisor ended"))
        self._waiting.clear()
        if self._whole.is_set() and not self._closing:
            self._whole.clear()
            self._recovering = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        """Say that all containers ended, and start anew with the same pods and Services."""
        log.error("the supervisor of the pods ended unasked, and all containers with it; starting another")
        ended, self._running = self._running, set()
        for key in ended:
            self.on_exit(key, -signal.SIGKILL)
        while True:
            try:
                await self._end()
                await self._launch()
                for uid, (pod_ip, hostname) in self._sandboxes.items():
                    await self._ask("sandbox", uid=uid, ip=pod_ip, hostname=hostname)
                await self._ask("services", services=self._services)
            except OSError as error:
                log.error("the supervisor of the pods does not start: %s", error.strerror or error)
                await asyncio.sleep(START_AGAIN)
                continue
            self._whole.set()
            return

    async def _order(self, op: str, **order: Any) -> Any:
        await self._whole.wait()
        return await self._ask(op, **order)

    async def _ask(self, op: str, **order: Any) -> Any:
        if self._writer is None:
            raise OSError("the supervisor is not running")
        self._next += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._next] = answer
        self._writer.write(json.dumps({"id": self._next, "op": op, **order}).encode() + b"\n")
        return await answer

    def address(self, pod_ip: str) -> str:
        return pod_ip

    async def prepare(self, uid: str, pod_ip: str, hostname: str) -> None:
        await self._order("sandbox", uid=uid, ip=pod_ip, hostname=hostname)
        self._sandboxes[uid] = pod_ip, hostname

    async def start(self, launch: Launch) -> None:
        root = self._folder / "roots" / uuid.uuid4().hex
        root.mkdir(parents=True)
        mounts = [{"source": m.source, "target": m.target, "readOnly": m.read_only} for m in launch.mounts]
        key = f"{launch.uid}/{launch.container}"
        self._running.add(key)
        try:
            await self._order(
                "start",
                uid=launch.uid,
                container=launch.container,
                argv=list(launch.argv),
                env=dict(launch.environment),
                cwd=launch.working_folder,
                mounts=mounts,
                root=str(root),
                log=str(launch.log),
                stdin=launch.stdin,
                stdinOnce=launch.stdin_once,
                tty=launch.tty,
            )
        except OSError:
            self._running.discard(key)
            raise
        finally:
            root.rmdir()  # mounted over in the container's view only

    async def signal(self, key: str, number: int) -> None:
        await self._order("signal", key=key, signal=number)

    async def command(
        self, key: str, argv: Sequence[str], environment: Mapping[str, str], cwd: str, *, tty: bool = False
    ) -> Command:
        token = uuid.uuid4().hex
        await self._order("exec", key=key, token=token, argv=list(argv), env=dict(environment), cwd=cwd, tty=tty)
        return await self._talk(f"exec {token}")

    async def attach(self, key: str, *, stdin: bool) -> Command:
        return await self._talk(f"attach {key} {'stdin' if stdin else 'view'}")

    async def _talk(self, wish: str) -> Command:
        reader, writer = await self._relay()
        writer.write(f"{wish}\n".encode())
        return Command(reader, writer)

    async def _relay(self) -> Stream:
        with short_path(self._folder / "relay.sock") as path:
            return await asyncio.open_unix_connection(path, limit=2**20)

    async def connect(self, pod_ip: str, port: int) -> Stream:
        reader, writer = await self._relay()
        writer.write(f"connect {pod_ip} {port}\n".encode())
        answer = (await reader.readline()).decode().strip()
        if answer != "ok":
            writer.close()
            raise ConnectionRefusedError(answer.removeprefix("error ") or "the relay ended")
        return reader, writer

    async def services(self, addresses: Sequence[ServiceAddress]) -> None:
        self._services = [{"ip": a.ip, "port": a.port, "endpoints": [list(e) for e in a.endpoints]} for a in addresses]
        await self._order("services", services=self._services)

    async def destroy(self, uid: str) -> None:
        self._sandboxes.pop(uid, None)
        await self._order("destroy", uid=uid)

    async def close(self) -> None:
        self._closing = True
        if self._recovering is not None:
            self._recovering.cancel()
        if self._api is not None:
            self._api.close()
        await self._end()
        if self._reading is not None:
            self._reading.cancel()

    async def _end(self) -> None:
        """End the supervisor, and with it all containers."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
