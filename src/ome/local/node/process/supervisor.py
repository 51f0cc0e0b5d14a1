"""The parent of all isolated containers: process 1 of a pid namespace, owner of the pods' networks.

Started by `isolated.IsolatedBackend` with a socket for orders and a folder for the relay's sockets. When the node
stand-in ends in whatever way, the kernel ends this process, and with it every container: nothing is left behind.

Orders and answers are JSON lines on the order socket: `{"id", "op", ...}` -> `{"id", "ok"|"error"}`; endings come
unasked as `{"event": "exit", "key", "code"}`. Streams use the relay socket: first a line `connect IP PORT`,
`exec TOKEN` or `attach KEY stdin|view`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ome.local.node.process import sessions, syscalls
from ome.local.node.process.framing import pump, reason, short_path, write_frame
from ome.local.node.process.logs import LogWriter
from ome.local.node.process.rootfs import Mount, enter
from ome.local.node.process.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
)

BRIDGE = "pods"
BRIDGE_ADDRESS = "198.19.255.254"
POD_PREFIX = 15
CANNOT_START = 127
MOST_DESCRIPTORS = 2**20


@dataclass
class Sandbox:
    """A pod's network: held open by the pidfd of a process that only waits."""

    uid: str
    ip: str
    hostname: str
    holder: int
    pidfd: int
    link: str


@dataclass
class Running:
    """A container's first process, what it says and what it can be told."""

    key: str
    pid: int
    pidfd: int
    output: sessions.Output
    input: sessions.Input
    stdin_once: bool
    ended: asyncio.Future[int]
    logging: asyncio.Future[None] | None = None


@dataclass
class Supervisor:
    """State and orders of process 1."""

    folder: Path
    orders: socket.socket
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    listeners: dict[tuple[str, int], asyncio.Server] = field(default_factory=dict)
    services: dict[tuple[str, int], list[tuple[str, int]]] = field(default_factory=dict)
    execs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    waiters: dict[int, asyncio.Future[int]] = field(default_factory=dict)
    tasks: set[asyncio.Future[None]] = field(default_factory=set)
    links: int = 0
    turn: int = 0

    # -- life --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve orders until the order socket closes."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        self.network = await self._open_network()
        with short_path(self.folder / "relay.sock") as path:
            relay = await asyncio.start_unix_server(self._relay, path)
        reader, self.writer = await asyncio.open_connection(sock=self.orders)
        self._say({"event": "ready"})
        async with relay:
            while line := await reader.readline():
                order = json.loads(line)
                await self._obey(order)

    async def _open_network(self) -> Any:
        from pyroute2 import AsyncIPRoute

        network = AsyncIPRoute()
        await network.setup_endpoint()
        await network.link("set", index=(await network.link_lookup(ifname="lo"))[0], state="up")
        await network.link("add", ifname=BRIDGE, kind="bridge")
        bridge = (await network.link_lookup(ifname=BRIDGE))[0]
        await network.addr("add", index=bridge, address=BRIDGE_ADDRESS, prefixlen=POD_PREFIX)
        await network.link("set", index=bridge, state="up")
        self.bridge = bridge
        return network

    def _say(self, message: Mapping[str, Any]) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")

    async def _obey(self, order: Mapping[str, Any]) -> None:
        try:
            found = await getattr(self, f"do_{order['op']}")(order)
        except OSError as error:
            self._say({"id": order["id"], "error": error.strerror or str(error)})
            return
        except Exception as error:  # an order must be answered, whatever went wrong (netlink has its own errors)
            self._say({"id": order["id"], "error": f"{type(error).__name__}: {error}"})
            return
        self._say({"id": order["id"], "ok": found})

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            waiter = self.waiters.pop(pid, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(code)
            for key, running in [*self.running.items()]:
                if running.pid == pid:
                    del self.running[key]
                    os.close(running.pidfd)
                    self._keep(self._end(running, code))

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _end(self, running: Running, code: int) -> None:
        """Say that a container ended, after its last words are in the log."""
        if running.logging is not None:
            await asyncio.wait([running.logging], timeout=sessions.LAST_WORDS)
        running.input.close()
        running.ended.set_result(code)
        self._say({"event": "exit", "key": running.key, "code": code})

    # -- pods --------------------------------------------------------------------------------------------------------

    async def do_sandbox(self, order: Mapping[str, Any]) -> None:
        """Make a pod's network: its own interface, address and route; idempotent."""
        uid = str(order["uid"])
        if uid in self.sandboxes:
            return
        ready, tell = os.pipe()
        pid = syscalls.fork_into(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC)
        if pid == 0:
            _hold(ready, tell, str(order["hostname"]))
        os.close(tell)
        try:
            if os.read(ready, 1) != b"1":
                raise OSError("the pod's sandbox did not start")
        finally:
            os.close(ready)
        self.links += 1
        sandbox = Sandbox(uid, str(order["ip"]), str(order["hostname"]), pid, os.pidfd_open(pid), f"pod{self.links}")
        self.sandboxes[uid] = sandbox
        try:
            await self._connect_sandbox(sandbox)
        except BaseException:
            await self.do_destroy({"uid": uid})
            raise

    async def _connect_sandbox(self, sandbox: Sandbox) -> None:
        peer = f"eth{self.links}"
        await self.network.link("add", ifname=sandbox.link, kind="veth", peer={"ifname": peer})
        mine = (await self.network.link_lookup(ifname=sandbox.link))[0]
        theirs = (await self.network.link_lookup(ifname=peer))[0]
        await self.network.link("set", index=mine, master=self.bridge, state="up")
        await self.network.link("set", index=theirs, net_ns_pid=sandbox.holder)
        pid = os.fork()
        if pid == 0:
            _configure(sandbox.pidfd, peer, sandbox.ip)
        configured: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.waiters[pid] = configured
        if await configured != 0:
            raise OSError(f"the network of pod {sandbox.uid} could not be set up")

    async def do_destroy(self, order: Mapping[str, Any]) -> None:
        """End everything of a pod."""
        uid = str(order["uid"])
        for key, running in [*self.running.items()]:
            if key.startswith(f"{uid}/"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(running.pid, signal.SIGKILL)
        sandbox = self.sandboxes.pop(uid, None)
        if sandbox is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(sandbox.holder, signal.SIGKILL)
        os.close(sandbox.pidfd)
        from pyroute2.netlink.exceptions import NetlinkError

        for index in await self.network.link_lookup(ifname=sandbox.link):
            try:
                await self.network.link("del", index=index)
            except NetlinkError as error:
                if error.code != errno.ENODEV:  # the kernel removes it too, with the pod's network
                    raise

    async def do_start(self, order: Mapping[str, Any]) -> int:
        """Start a container's process; its output goes to the log file of the order."""
        sandbox = self.sandboxes[str(order["uid"])]
        key = f"{sandbox.uid}/{order['container']}"
        ends = sessions.Ends.of(tty=bool(order.get("tty")), stdin=bool(order.get("stdin")), merged=True)
        error_in, error_out = os.pipe2(os.O_CLOEXEC)
        pid = syscalls.fork_into(CLONE_NEWPID | CLONE_NEWNS)
        if pid == 0:
            os.close(error_in)
            _become_container(sandbox.pidfd, order, ends, error_out)
        os.close(error_out)
        typed, outputs = await ends.ours()
        output = sessions.Output(LogWriter(Path(str(order["log"]))))
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        running = Running(key, pid, os.pidfd_open(pid), output, typed, bool(order.get("stdinOnce")), ended)
        running.logging = self._keep(output.follow(outputs[sessions.STDOUT]))
        self.running[key] = running
        reader, _ = await sessions.pipe_reader(error_in)
        problem = (await reader.read()).decode()
        if problem:
            raise OSError(problem)
        return pid

    async def do_signal(self, order: Mapping[str, Any]) -> bool:
        """Send a signal to a container's first process; False when it is gone."""
        running = self.running.get(str(order["key"]))
        if running is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, int(order["signal"]))
        return True

    async def do_exec(self, order: Mapping[str, Any]) -> None:
        """Prepare a command in a container; it runs when a stream asks for the token."""
        if str(order["key"]) not in self.running:
            raise OSError("the container is not running")
        self.execs[str(order["token"])] = order

    # -- services ----------------------------------------------------------------------------------------------------

    async def do_services(self, order: Mapping[str, Any]) -> None:
        """The Services as they are now: `[{ip, port, endpoints: [[ip, port]...]}]`; ip "" is the API server."""
        wanted = {
            (str(item["ip"]), int(item["port"])): [(str(ip), int(port)) for ip, port in item["endpoints"]]
            for item in order["services"]
        }
        for gone in [key for key in self.listeners if key not in wanted]:
            self.listeners.pop(gone).close()
        known = {ip for ip, _ in self.listeners}
        self.services = wanted
        for ip, port in wanted:
            if (ip, port) in self.listeners:
                continue
            if ip not in known:
                await self.network.route("replace", dst=f"{ip}/32", oif=1, type="local", table=255, scope="host")
                known.add(ip)
            self.listeners[ip, port] = await asyncio.start_server(self._serve(ip, port), ip, port, backlog=256)

    def _serve(self, ip: str, port: int) -> Any:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found = await self._dial_any(self.services.get((ip, port), []))
            if found is None:
                writer.transport.abort()
                return
            await pump(reader, writer, *found)

        return accept

    async def _dial_any(
        self, endpoints: list[tuple[str, int]]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to one of the endpoints, in turn; one that refuses is passed over."""
        for offset in range(len(endpoints)):
            self.turn += 1
            ip, port = endpoints[(self.turn + offset) % len(endpoints)]
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(3):
                    if not ip:
                        with short_path(self.folder / "api.sock") as path:
                            return await asyncio.open_unix_connection(path)
                    return await asyncio.open_connection(ip, port)
        return None

    # -- the relay ---------------------------------------------------------------------------------------------------

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            words = (await reader.readline()).decode().split()
            if words[:1] == ["connect"] and len(words) == 3:
                await self._relay_connection(words[1], int(words[2]), reader, writer)
            elif words[:1] == ["exec"] and len(words) == 2:
                await self._relay_exec(words[1], reader, writer)
                await sessions.see_off(reader)
            elif words[:1] == ["attach"] and len(words) == 3:
                await self._relay_attach(words[1], words[2] == "stdin", reader, writer)
                await sessions.see_off(reader)
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            print(f"relay: {error}", file=sys.stderr, flush=True)
        finally:
            writer.close()

    async def _relay_connection(
        self, ip: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(5):
                inner = await asyncio.open_connection(ip, port)
        except (OSError, TimeoutError) as error:
            writer.write(f"error {reason(error)}\n".encode())
            return
        writer.write(b"ok\n")
        await pump(reader, writer, *inner)

    async def _relay_exec(self, token: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        order = self.execs.pop(token)
        running = self.running.get(str(order["key"]))
        if running is None:
            await write_frame(writer, 3, b"-1 the container is not running")
            return
        ends = sessions.Ends.of(tty=bool(order.get("tty")), stdin=True, merged=False)
        pid = syscalls.fork_into(0)
        if pid == 0:
            _become_command(running.pidfd, order, ends)
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.waiters[pid] = ended
        typed, outputs = await ends.ours()
        await sessions.run_command(reader, writer, typed, outputs, ended)

    async def _relay_attach(
        self, key: str, stdin: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        running = self.running.get(key)
        if running is None:
            await write_frame(writer, sessions.EXIT, b"-1 the container is not running")
            return
        once = stdin and running.stdin_once
        await sessions.attach(reader, writer, running.input, running.output, running.ended, once=once)


# -- children: what runs between fork and exec -------------------------------------------------------------------------


def _hold(ready: int, tell: int, hostname: str) -> None:
    """Keep a pod's namespaces open by waiting; never returns."""
    try:
        # What is open here stays open as long as the pod: pipes and connections of others must not.
        os.closerange(3, tell)
        os.closerange(tell + 1, MOST_DESCRIPTORS)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        syscalls.die_with_parent(signal.SIGKILL)
        syscalls.set_hostname(hostname)
        os.write(tell, b"1")
        os.close(tell)
        while True:
            signal.pause()
    finally:
        os._exit(1)


def _configure(pidfd: int, link: str, ip: str) -> None:
    """Set up a pod's interfaces from inside its network; never returns."""
    code = 1
    try:
        syscalls.setns(pidfd, CLONE_NEWNET)
        from pyroute2 import IPRoute

        with IPRoute() as network:
            network.link("set", index=network.link_lookup(ifname="lo")[0], state="up")
            index = network.link_lookup(ifname=link)[0]
            network.link("set", index=index, ifname="eth0", state="up")
            network.addr("add", index=index, address=ip, prefixlen=POD_PREFIX)
            network.route("add", dst="default", gateway=BRIDGE_ADDRESS)
        code = 0
    except Exception as error:  # the parent sees the exit code; the text goes to the log
        print(f"pod network {ip}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _reset_signals() -> None:
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _become_container(pidfd: int, order: Mapping[str, Any], ends: sessions.Ends, problem: int) -> None:
    """Enter the pod's network, build the file system view, run the command; never returns."""
    try:
        _reset_signals()
        os.setsid()
        syscalls.setns(pidfd, CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC)
        root = str(order["root"])
        mounts = [Mount(str(m["source"]), str(m["target"]), bool(m.get("readOnly"))) for m in order["mounts"]]
        enter(root, mounts)
        with contextlib.suppress(OSError):  # a masked /proc forbids it; the machine's own then shows
            syscalls.mount("proc", "/proc", "proc")
        os.chdir(str(order.get("cwd") or "/"))
        ends.take()
        argv = [str(part) for part in order["argv"]]
        os.execvpe(argv[0], argv, {str(k): str(v) for k, v in order["env"].items()})
    except FileNotFoundError as error:
        os.write(problem, f"{error.filename or order['argv'][0]}: no such file or directory".encode())
    except OSError as error:
        os.write(problem, (error.strerror or str(error)).encode())
    finally:
        os._exit(CANNOT_START)


def _become_command(pidfd: int, order: Mapping[str, Any], ends: sessions.Ends) -> None:
    """Run a command beside a container's process; never returns."""
    try:
        _reset_signals()
        syscalls.setns(pidfd, CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC)
        # A process enters a pid namespace only by its children.
        child = os.fork()
        if child:
            os.closerange(0, MOST_DESCRIPTORS)
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        os.setsid()
        ends.take()
        os.chdir(str(order.get("cwd") or "/"))
        argv = [str(part) for part in order["argv"]]
        os.execvpe(argv[0], argv, {str(k): str(v) for k, v in order["env"].items()})
    except OSError as error:
        os.write(2, f"{order['argv'][0]}: {error.strerror or error}\n".encode())
    finally:
        os._exit(CANNOT_START)


# -- start -------------------------------------------------------------------------------------------------------------


def _map_users(uid: int, gid: int) -> None:
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def main(arguments: list[str]) -> int:
    """`supervisor FD FOLDER`: enter new namespaces, become process 1, serve. Exit 1 where the kernel forbids it."""
    descriptor, folder = int(arguments[0]), Path(arguments[1])
    orders = socket.socket(fileno=descriptor)
    orders.setblocking(False)
    syscalls.die_with_parent(signal.SIGKILL)
    try:
        uid, gid = os.getuid(), os.getgid()
        syscalls.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID)
        _map_users(uid, gid)
        syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    except OSError as error:
        print(f"isolated pods are not possible here: {error}", file=sys.stderr, flush=True)
        return 1
    child = os.fork()
    if child:
        orders.close()
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status) & 0xFF
    syscalls.die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(Supervisor(folder, orders).run())
    except Exception as error:  # netlink's errors are not OSErrors; the backend falls back to plain and says why
        print(f"isolated pods are not possible here: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
