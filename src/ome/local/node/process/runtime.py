"""The container runtime of process pods: what the kubelet asks for becomes processes, volumes, probes and logs.

Handles images under `local/`. A change that comes from the process itself (it ended, a probe's verdict turned) is told
to the kubelet through `on_change`. Also the source of logs, exec and port-forward for the API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ome.local.node.process.backend import Backend, Command, Launch, Stream
from ome.local.node.process.environment import command_of, environment_of
from ome.local.node.process.materials import Materials
from ome.local.node.process.messages import last_message, prepare
from ome.local.node.process.probes import Prober, Watchman, exit_code
from ome.local.node.process.rootfs import Mount
from ome.local.node.process.volumes import Volumes
from ome.local.node.runtime import Exit, Observation
from ome.local.objects import Object

PREFIX = "local/"
ContainerKey = tuple[str, str]  # (pod uid, container name)


@dataclass
class Container:
    """One run of one container."""

    pod: Object
    spec: Mapping[str, Any]
    container_id: str
    started_at: datetime
    environment: Mapping[str, str]
    log: Path
    written: Path | None = None  # what stands at its terminationMessagePath
    watchman: Watchman | None = None
    watching: asyncio.Task[None] | None = None
    stopping: asyncio.Task[None] | None = None
    exit: Exit | None = None
    killed_for: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class ProcessRuntime:
    """Fulfils `ome.local.node.runtime.ContainerRuntime` with real processes."""

    def __init__(self, backend: Backend, volumes: Volumes, materials: Materials) -> None:
        self.on_change: Callable[[tuple[str, str]], None] = lambda _pod: None  # (namespace, name)
        self.on_probe_failure: Callable[[Object, str, str], None] = lambda _pod, _container, _text: None
        self._backend = backend
        self._volumes = volumes
        self._materials = materials
        self._containers: dict[ContainerKey, Container] = {}
        self._prepared: dict[str, str] = {}  # pod uid -> its address
        backend.on_exit = self._exited

    # -- what the kubelet asks ---------------------------------------------------------------------------------------

    def handles(self, image: str) -> bool:
        return image.startswith(PREFIX)

    async def start(self, pod: Object, container: Mapping[str, Any], attempt: int, now: datetime) -> None:
        name = str(container["name"])
        pod_ip = self._materials.pod_ip(pod)
        if pod.uid not in self._prepared:
            await self._backend.prepare(pod.uid, pod_ip, str(pod.spec.get("hostname") or pod.name)[:63])
            self._prepared[pod.uid] = pod_ip
        material = await self._materials.gather(pod, container, self._backend.address(pod_ip))
        environment = environment_of(pod, container, material.sources)
        if container.get("tty"):
            environment.setdefault("TERM", "xterm")
        mounts = self._volumes.mounts(pod, container, material.volumes)
        folder = self._volumes.folder(pod.uid)
        if self._backend.isolated:
            mounts.append(Mount(str(self._materials.hosts_file(pod, folder)), "/etc/hosts"))
        written = self._written(container, folder, attempt)
        if written is not None:
            mounts.append(Mount(str(written), _absolute(str(container["terminationMessagePath"]))))
        log = self._log(pod.uid, name, attempt)
        run = Container(pod, container, f"process://{uuid.uuid4().hex}", now, environment, log, written)
        self._containers[pod.uid, name] = run
        try:
            await self._backend.start(
                Launch(
                    uid=pod.uid,
                    container=name,
                    argv=command_of(container, environment),
                    environment=environment,
                    log=log,
                    mounts=mounts,
                    working_folder=str(container.get("workingDir") or ""),
                    stdin=bool(container.get("stdin")),
                    stdin_once=bool(container.get("stdinOnce")),
                    tty=bool(container.get("tty")),
                )
            )
        except OSError:
            self._containers.pop((pod.uid, name), None)
            raise
        self._watch(run)

    def _written(self, container: Mapping[str, Any], folder: Path, attempt: int) -> Path | None:
        """The file for the container's last message; plain pods have no file system of their own to put it in."""
        if not self._backend.isolated or not container.get("terminationMessagePath"):
            return None
        return prepare(folder / "messages" / str(container["name"]) / str(attempt))

    def _log(self, uid: str, container: str, attempt: int) -> Path:
        return self._volumes.folder(uid) / "logs" / container / f"{attempt}.log"

    def _watch(self, run: Container) -> None:
        async def dial(port: int) -> Stream:
            return await self._backend.connect(self._materials.pod_ip(run.pod), port)

        async def command(argv: list[str]) -> int:
            return await self._command(run, argv)

        async def kill(reason: str) -> None:
            run.killed_for = reason
            await self._end(run, float(run.pod.spec.get("terminationGracePeriodSeconds") or 30))

        def failing(kind: str, message: str) -> None:
            self.on_probe_failure(run.pod, str(run.spec["name"]), f"{kind} probe failed: {message}")

        prober = Prober(run.spec, dial, command)
        run.watchman = Watchman(run.spec, prober, lambda: self.on_change(run.pod.key), kill, failing)
        run.watching = asyncio.create_task(self._started(run))

    async def _started(self, run: Container) -> None:
        hook = ((run.spec.get("lifecycle") or {}).get("postStart")) or {}
        if hook:
            await self._hook(run, hook)
        assert run.watchman is not None
        await run.watchman.run()

    async def stop(self, pod: Object, container: Mapping[str, Any], grace: float, now: datetime) -> None:
        run = self._containers.get((pod.uid, str(container["name"])))
        if run is None or run.exit is not None or run.stopping is not None:
            return
        run.stopping = asyncio.create_task(self._end(run, grace))

    async def _end(self, run: Container, grace: float) -> None:
        """preStop, SIGTERM, grace, SIGKILL; the hook's time is part of the grace."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        hook = ((run.spec.get("lifecycle") or {}).get("preStop")) or {}
        if hook:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, grace)):
                    await self._hook(run, hook)
        key = f"{run.pod.uid}/{run.spec['name']}"
        await self._backend.signal(key, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            # Two seconds at least, as the kubelet grants after a hook that used up the grace.
            async with asyncio.timeout(max(2.0 if hook else 0.0, deadline - loop.time())):
                await run.ended.wait()
        if run.exit is None:
            await self._backend.signal(key, signal.SIGKILL)

    async def _hook(self, run: Container, hook: Mapping[str, Any]) -> None:
        try:
            if hook.get("sleep"):
                await asyncio.sleep(float(hook["sleep"].get("seconds") or 0))
            elif hook.get("exec"):
                await self._command(run, [str(part) for part in hook["exec"].get("command") or ()])
            elif hook.get("httpGet") or hook.get("tcpSocket"):

                async def dial(port: int) -> Stream:
                    return await self._backend.connect(self._materials.pod_ip(run.pod), port)

                async def nothing(_argv: list[str]) -> int:
                    return 0

                await Prober(run.spec, dial, nothing)._look(hook)
        except OSError as error:
            self.on_probe_failure(run.pod, str(run.spec["name"]), f"lifecycle hook failed: {error}")

    async def _command(self, run: Container, argv: Sequence[str]) -> int:
        key = f"{run.pod.uid}/{run.spec['name']}"
        command = await self._backend.command(key, argv, run.environment, str(run.spec.get("workingDir") or ""))
        try:
            return await exit_code(command.reader)
        finally:
            command.writer.close()

    async def forget(self, uid: str) -> None:
        if uid not in self._prepared and not any(key[0] == uid for key in self._containers):
            return
        await self._backend.destroy(uid)
        for key in [key for key in self._containers if key[0] == uid]:
            run = self._containers.pop(key)
            for task in (run.watching, run.stopping):
                if task is not None:
                    task.cancel()
        self._prepared.pop(uid, None)
        self._volumes.remove(uid)

    def adopt(self, pod: Object) -> None:
        """Processes end with the process that started them: there is nothing to take over."""

    def observe(self, uid: str, container: str, now: datetime) -> Observation | None:
        run = self._containers.get((uid, container))
        if run is None:
            return None
        watchman = run.watchman
        alive = run.exit is None
        return Observation(
            image=str(run.spec.get("image") or ""),
            container_id=run.container_id,
            started_at=run.started_at,
            started=alive and watchman is not None and watchman.started,
            ready=alive and watchman is not None and watchman.ready and run.stopping is None,
            exit=run.exit,
        )

    def _exited(self, key: str, code: int) -> None:
        uid, _, name = key.partition("/")
        run = self._containers.get((uid, name))
        if run is None or run.exit is not None:
            return
        number = 128 - code if code < 0 else code
        run.exit = Exit(
            code=number,
            reason="Completed" if number == 0 else "Error",
            started_at=run.started_at,
            finished_at=datetime.now(UTC).replace(microsecond=0),
            container_id=run.container_id,
            message=last_message(run.spec, number, run.written, run.log, containers=_count(run.pod)),
        )
        run.ended.set()
        if run.watching is not None:
            run.watching.cancel()
        self.on_change(run.pod.key)

    def owns(self, address: str) -> bool:
        """Whether an address belongs to a process pod."""
        return address in self._prepared.values()

    # -- what the API server asks ------------------------------------------------------------------------------------

    def log_of(self, uid: str, container: str, previous: bool) -> tuple[Path, asyncio.Event | None] | None:
        """The log file of a container (or of its run before), and the event that it ended; None without one."""
        folder = self._volumes.folder(uid) / "logs" / container
        runs = sorted(folder.glob("*.log"), key=lambda path: int(path.stem)) if folder.is_dir() else []
        wanted = runs[-2:-1] if previous else runs[-1:]
        if not wanted:
            return None
        run = self._containers.get((uid, container))
        return wanted[0], (run.ended if run is not None and not previous else None)

    def running(self, uid: str, container: str) -> Container | None:
        """The container, if it is running."""
        run = self._containers.get((uid, container))
        return run if run is not None and run.exit is None else None

    async def command(self, uid: str, container: str, argv: Sequence[str], *, tty: bool = False) -> Command:
        """Start a command in a running container. Raises OSError."""
        run = self.running(uid, container)
        if run is None:
            raise OSError(f"container {container} is not running")
        environment = {"TERM": "xterm", **run.environment} if tty else run.environment
        folder = str(run.spec.get("workingDir") or "")
        return await self._backend.command(f"{uid}/{container}", argv, environment, folder, tty=tty)

    async def attach(self, uid: str, container: str, *, stdin: bool) -> Command:
        """What a running container says from now on, and with `stdin` its input. Raises OSError."""
        return await self._backend.attach(f"{uid}/{container}", stdin=stdin)

    async def connect(self, pod_ip: str, port: int) -> Stream:
        """A connection to a port of a process pod. Raises OSError."""
        return await self._backend.connect(pod_ip, port)


def _absolute(path: str) -> str:
    """A path as the container means it, without `..` in it."""
    return os.path.normpath("/" + path.lstrip("/"))


def _count(pod: Object) -> int:
    """The pod's containers, init containers included."""
    return sum(len(pod.spec.get(field) or ()) for field in ("containers", "initContainers"))
