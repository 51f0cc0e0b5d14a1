"""Startup, readiness and liveness probes of real processes, in real time, as the kubelet runs them.

httpGet, tcpSocket and exec. Until the startup probe has succeeded the other two do not run; a startup or liveness probe
that fails too often ends the container; a readiness probe only changes what the API shows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ome.local.node.process.backend import Stream
from ome.local.node.process.framing import read_frame

Dial = Callable[[int], Awaitable[Stream]]
RunCommand = Callable[[list[str]], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe with Kubernetes' defaults filled in; times in seconds."""

    action: Mapping[str, Any]
    initial_delay: float
    period: float
    timeout: float
    successes: int
    failures: int

    @classmethod
    def of(cls, container: Mapping[str, Any], name: str) -> Probe | None:
        """`startupProbe`, `readinessProbe` or `livenessProbe` of a container, or None."""
        spec = container.get(name)
        if not spec:
            return None
        return cls(
            action=spec,
            initial_delay=float(spec.get("initialDelaySeconds") or 0),
            period=max(1.0, float(spec.get("periodSeconds") or 10)),
            timeout=max(1.0, float(spec.get("timeoutSeconds") or 1)),
            successes=max(1, int(spec.get("successThreshold") or 1)),
            failures=max(1, int(spec.get("failureThreshold") or 3)),
        )


@dataclass(frozen=True, slots=True)
class Result:
    """One look."""

    ok: bool
    message: str = ""


class Prober:
    """Looks at one container through its probes."""

    def __init__(self, container: Mapping[str, Any], dial: Dial, run: RunCommand) -> None:
        self._container = container
        self._dial = dial
        self._run = run

    async def look(self, probe: Probe) -> Result:
        """One look, within the probe's timeout."""
        try:
            async with asyncio.timeout(probe.timeout):
                return await self._look(probe.action)
        except TimeoutError:
            return Result(False, f"no answer within {probe.timeout:g} s")
        except OSError as error:
            return Result(False, error.strerror or str(error))

    async def _look(self, action: Mapping[str, Any]) -> Result:
        if action.get("exec"):
            code = await self._run([str(part) for part in action["exec"].get("command") or ()])
            return Result(code == 0, f"command exited with {code}")
        if action.get("tcpSocket"):
            _, writer = await self._dial(self._port(action["tcpSocket"].get("port")))
            writer.close()
            return Result(True)
        if action.get("httpGet"):
            return await self._http(action["httpGet"])
        return Result(True)

    def _port(self, port: Any) -> int:
        if isinstance(port, int):
            return port
        for declared in self._container.get("ports") or ():
            if declared.get("name") == port:
                return int(declared["containerPort"])
        with contextlib.suppress(TypeError, ValueError):
            return int(port)
        raise OSError(f"container has no port {port!r}")

    async def _http(self, get: Mapping[str, Any]) -> Result:
        reader, writer = await self._dial(self._port(get.get("port")))
        try:
            headers = {"host": "localhost", "user-agent": "kube-probe/1.37", "connection": "close"}
            headers.update({str(h["name"]).lower(): str(h["value"]) for h in get.get("httpHeaders") or ()})
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"GET {get.get('path') or '/'} HTTP/1.1\r\n{lines}\r\n".encode())
            await writer.drain()
            line = (await reader.readline()).decode("latin-1")
        finally:
            writer.close()
        parts = line.split()
        if len(parts) < 2 or not parts[1].isdigit():
            return Result(False, "no HTTP answer")
        code = int(parts[1])
        return Result(200 <= code < 400, f"HTTP probe failed with statuscode: {code}")


class Watchman:
    """Runs a container's probes and keeps the verdicts; `changed` is called when one changes."""

    def __init__(
        self,
        container: Mapping[str, Any],
        prober: Prober,
        changed: Callable[[], None],
        kill: Callable[[str], Awaitable[None]],
        failing: Callable[[str, str], None],
    ) -> None:
        """`kill` ends the container with a reason; `failing` is told of each failure (kind, message)."""
        self.started = Probe.of(container, "startupProbe") is None
        self.ready = self.started and Probe.of(container, "readinessProbe") is None
        self._container = container
        self._prober = prober
        self._changed = changed
        self._kill = kill
        self._failing = failing

    async def run(self) -> None:
        """Until cancelled, or until the container was ended for failing."""
        startup = Probe.of(self._container, "startupProbe")
        if startup is not None:
            if not await self._until_started(startup):
                return
            self.started = True
            self.ready = Probe.of(self._container, "readinessProbe") is None
            self._changed()
        async with asyncio.TaskGroup() as group:
            readiness = Probe.of(self._container, "readinessProbe")
            liveness = Probe.of(self._container, "livenessProbe")
            if readiness is not None:
                group.create_task(self._readiness(readiness))
            if liveness is not None:
                group.create_task(self._liveness(liveness))

    async def _until_started(self, probe: Probe) -> bool:
        await asyncio.sleep(probe.initial_delay)
        failures = 0
        while True:
            result = await self._prober.look(probe)
            if result.ok:
                return True
            failures += 1
            self._failing("Startup", result.message)
            if failures >= probe.failures:
                await self._kill("failed startup probe, will be restarted")
                return False
            await asyncio.sleep(probe.period)

    async def _readiness(self, probe: Probe) -> None:
        await asyncio.sleep(probe.initial_delay)
        run = 0
        while True:
            result = await self._prober.look(probe)
            run = (run + 1 if run >= 0 else 1) if result.ok else (run - 1 if run <= 0 else -1)
            if not result.ok:
                self._failing("Readiness", result.message)
            verdict = self.ready
            if run >= probe.successes:
                verdict = True
            elif run <= -probe.failures:
                verdict = False
            if verdict != self.ready:
                self.ready = verdict
                self._changed()
            # A pod that is not ready yet is looked at every second: nobody gains by waiting out the period.
            await asyncio.sleep(probe.period if self.ready else min(1.0, probe.period))

    async def _liveness(self, probe: Probe) -> None:
        await asyncio.sleep(probe.initial_delay)
        failures = 0
        while True:
            result = await self._prober.look(probe)
            failures = 0 if result.ok else failures + 1
            if not result.ok:
                self._failing("Liveness", result.message)
            if failures >= probe.failures:
                await self._kill("failed liveness probe, will be restarted")
                return
            await asyncio.sleep(probe.period)


async def exit_code(reader: asyncio.StreamReader) -> int:
    """The exit code of a command whose output does not matter."""
    while frame := await read_frame(reader):
        if frame[0] == 3:
            return int(frame[1].split()[0])
    return -1
