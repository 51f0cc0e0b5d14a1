"""Logs, exec, attach and port-forward of process pods, as the API server asks for them.

Exec speaks `v5.channel.k8s.io` (a byte of channel before each message: 0 in, 1 out, 2 error, 3 the end as a Status, 255
closes a channel). Simulated pods have no output and nothing to run: they say so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ome.local.apiserver.errors import Problem
from ome.local.apiserver.http import ExecOptions, LogOptions, Upgrade, WebSocket
from ome.local.node.process.backend import Stream
from ome.local.node.process.framing import read_frame, write_frame
from ome.local.node.process.logs import Wish, read_log
from ome.local.node.process.port_forward import PortForward
from ome.local.node.process.runtime import ProcessRuntime
from ome.local.node.process.sessions import EXIT, RESIZE, STDIN

EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
PORT_FORWARD_PROTOCOLS = ("SPDY/3.1+portforward.k8s.io",)
CLOSE_CHANNEL = 255
_WAITS = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}


class PodStreams:
    """Implements the API server's LogSource and ExecSource over a process runtime, once there is one."""

    def __init__(self) -> None:
        self._attached: ProcessRuntime | None = None

    def attach(self, runtime: ProcessRuntime) -> None:
        """The node stand-in has started: ask this runtime from now on."""
        self._attached = runtime

    @property
    def _runtime(self) -> ProcessRuntime:
        if self._attached is None:
            raise Problem(503, "ServiceUnavailable", "the nodes are not running yet")
        return self._attached

    def logs(self, pod: dict[str, Any], options: LogOptions) -> AsyncIterator[bytes]:
        """The log of one container. Raises Problem 400 when it has none."""
        found = self._runtime.log_of(pod["metadata"]["uid"], options.container, options.previous)
        if found is None:
            if not self._runtime.handles(_image(pod, options.container)):
                return _nothing()
            raise Problem(400, "BadRequest", no_log(pod, options.container, options.previous))
        path, ended = found
        wish = Wish(options.timestamps, options.tail_lines, _since(options), options.limit_bytes)
        return read_log(path, wish, follow=options.follow, ended=ended if ended is not None else _always())

    def exec(self, pod: dict[str, Any], options: ExecOptions) -> Upgrade:
        """A command in a container. Raises Problem when there is nothing to run it in."""
        uid, image = pod["metadata"]["uid"], _image(pod, options.container)
        if not self._runtime.handles(image):
            message = f"container {options.container} is simulated (image {image}): there is no process to run in"
            raise Problem(400, "BadRequest", message)
        if self._runtime.running(uid, options.container) is None:
            raise Problem(400, "BadRequest", f"container not found ({options.container!r} is not running)")

        async def run(socket: WebSocket) -> None:
            await _run_command(self._runtime, uid, options, socket)

        return Upgrade(EXEC_PROTOCOLS, run)

    def port_forward(self, pod: dict[str, Any], ports: Sequence[int]) -> Upgrade:
        """Connections to the pod's ports, tunnelled as SPDY streams."""
        address = str((pod.get("status") or {}).get("podIP") or "")
        containers = (pod.get("spec") or {}).get("containers") or ()
        if not any(self._runtime.handles(str(c.get("image") or "")) for c in containers):
            raise Problem(400, "BadRequest", "the pod is simulated: nothing listens on its ports")

        async def dial(port: int) -> Stream:
            return await self._runtime.connect(address, port)

        async def run(socket: WebSocket) -> None:
            await PortForward(socket, dial).run()

        return Upgrade(PORT_FORWARD_PROTOCOLS, run)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""  # makes this a generator


def _since(options: LogOptions) -> datetime | None:
    if options.since_seconds is not None:
        return datetime.now(UTC) - timedelta(seconds=options.since_seconds)
    if not options.since_time:
        return None
    try:
        return datetime.fromisoformat(options.since_time)
    except ValueError:
        raise Problem(400, "BadRequest", f"sinceTime: {options.since_time!r} is not a time") from None


def no_log(pod: Mapping[str, Any], container: str, previous: bool) -> str:
    """Why a container has no log, in the kubelet's words. Pure."""
    name = f'"{container}" in pod "{pod["metadata"]["name"]}"'
    if previous:
        return f"previous terminated container {name} not found"
    status = pod.get("status") or {}
    for found in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (found.get("state") or {}).get("waiting") or {}
        if found.get("name") == container and waiting.get("reason"):
            why = _WAITS.get(waiting["reason"], waiting["reason"])
            return f"container {name} is waiting to start: {why}"
    return f"container {name} is not available"


def _image(pod: dict[str, Any], container: str) -> str:
    spec = pod.get("spec") or {}
    for found in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        if found.get("name") == container:
            return str(found.get("image") or "")
    return ""


def _always() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def _run_command(runtime: ProcessRuntime, uid: str, options: ExecOptions, socket: WebSocket) -> None:
    try:
        if options.attach:
            command = await runtime.attach(uid, options.container, stdin=options.stdin)
        else:
            command = await runtime.command(uid, options.container, options.command, tty=options.tty)
    except OSError as error:
        await socket.send(b"\x03" + _status(-1, str(error)))
        return

    async def feed() -> None:
        while (message := await socket.receive()) is not None:
            if not message:
                continue
            if message[0] == CLOSE_CHANNEL and message[1:] == bytes([STDIN]):
                await write_frame(command.writer, STDIN, b"")
            elif message[0] == STDIN and len(message) > 1 and options.stdin:
                await write_frame(command.writer, STDIN, message[1:])
            elif message[0] == RESIZE:
                await write_frame(command.writer, RESIZE, message[1:])
        # kubectl is gone: so is who would read what comes.
        command.writer.close()

    if not options.stdin and not options.attach:
        await write_frame(command.writer, STDIN, b"")
    feeding = asyncio.create_task(feed())
    code, text = -1, "the command ended without an exit code"
    try:
        while frame := await read_frame(command.reader):
            channel, data = frame
            if channel == EXIT:
                number, _, rest = data.decode().partition(" ")
                code, text = int(number), rest
                break
            await socket.send(bytes([channel]) + data)
    finally:
        feeding.cancel()
        command.writer.close()
    await socket.send(b"\x03" + _status(code, text))


def _status(code: int, text: str) -> bytes:
    """The end of a command as kubectl reads it."""
    if code == 0:
        return json.dumps({"metadata": {}, "status": "Success"}).encode()
    if code < 0:
        return json.dumps({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": text}).encode()
    return json.dumps(
        {
            "metadata": {},
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    ).encode()
