"""The cluster's process: API server, controllers and nodes in one event loop, the manager as a child beside it.

Started by `ome local up`. Everything but the socket and the files is elsewhere; here it is wired, started in order, and
ended in the reverse order.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import logging
import os
import signal
import socket
import sqlite3
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import ome
from ome.api.meta import timestamp
from ome.kube.cache import Caches
from ome.kube.client import Client
from ome.kube.clock import SystemClock
from ome.kube.config import ClusterConfig
from ome.kube.errors import KubeError
from ome.kube.resources import NODES
from ome.kube.sync import SyncClient
from ome.local.apiserver import certificates
from ome.local.apiserver.auth import MASTERS
from ome.local.apiserver.durable import Database
from ome.local.apiserver.events import HOUR
from ome.local.apiserver.http import User
from ome.local.apiserver.kubeconfig import write_kubeconfig
from ome.local.apiserver.sender import HttpSender
from ome.local.apiserver.serve import Serving, serve
from ome.local.apiserver.server import ApiServer
from ome.local.apiserver.tokens import load_key
from ome.local.cluster import LocalWorkloads, NodeStandIn
from ome.local.commands import managing
from ome.local.commands.data import DataDir, held, write_private
from ome.local.commands.installing import install_base
from ome.local.commands.refusals import Refusal
from ome.local.inprocess import InProcessTransport
from ome.local.node.process.assembly import process_pods, report_to
from ome.local.node.process.streams import PodStreams

HOST: Final = "127.0.0.1"
# The store keeps many long-lived objects: collecting more rarely costs nothing and stops less often.
GC_THRESHOLDS: Final = (50_000, 20, 100)

log = logging.getLogger("ome.local")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `ome local up` was asked for. `node_grace` is how long a silent node counts as alive, in seconds."""

    data: DataDir
    port: int
    nodes: int
    gpus: int
    manager: bool
    manager_arguments: tuple[str, ...] = ()
    node_grace: float = 40.0


def run(wanted: Wanted, ready: Callable[[dict[str, Any]], None], stopping: Callable[[], None] = lambda: None) -> None:
    """Run the cluster until SIGTERM or SIGINT, or until its terminal is closed. Raises Refusal.

    `ready` is told the facts once it serves, `stopping` is called before the first part ends.
    """
    wanted.data.prepare()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.disable()  # starting makes objects that stay
    with held(wanted.data):
        asyncio.run(_run(wanted, ready, stopping))


def log_to(path: Path) -> None:
    """Send the cluster's log to a file, for a command whose terminal belongs to something else."""
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, filename=path, format=form, force=True)


async def _run(wanted: Wanted, ready: Callable[[dict[str, Any]], None], stopping: Callable[[], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not under nohup
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        cluster = await _Cluster.start(wanted, stack)
        facts = cluster.facts()
        write_private(wanted.data.state, json.dumps(facts, indent=2))
        log.info("serving %s", facts["server"])
        ready(facts)
        gc.freeze()
        gc.enable()
        await _first(stop.wait(), cluster.broken.wait())
        log.info("stopping")
        stopping()
    if cluster.broken.is_set():
        raise Refusal("a part of the cluster ended unexpectedly; the lines above say which and why")


async def _first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait for the first of several events."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


class _Cluster:
    """The running parts."""

    def __init__(self, wanted: Wanted, serving: Serving, bundle: str, streams: PodStreams) -> None:
        self.wanted = wanted
        self.serving = serving
        self.bundle = bundle
        self.streams = streams
        self.broken = asyncio.Event()
        self.nodes = wanted.nodes
        self.started_at = SystemClock().now()

    @classmethod
    async def start(cls, wanted: Wanted, stack: contextlib.AsyncExitStack) -> _Cluster:
        data = wanted.data
        wanted = replace(wanted, port=wanted.port or _free_port())  # the server must know its own address
        files = await asyncio.to_thread(certificates.ensure, data.certificates, [HOST], certificates.utc_now())
        token = data.admin_token()
        streams = PodStreams()
        sender = HttpSender()
        stack.push_async_callback(sender.close)
        database = _database(data)
        stack.callback(database.close)
        server = ApiServer(
            tokens={token: User("kubernetes-admin", groups=("kubeadm:cluster-admins", MASTERS))},
            address=f"{HOST}:{wanted.port}",
            certificate=files.bundle(),
            database=database,
            token_key=load_key(files.token_key),
            logs=streams,
            execs=streams,
            event_ttl=HOUR,
            send=sender,
        )
        await _load(server, data)
        serving = await _listen(server, wanted.port, files)
        stack.push_async_callback(serving.close)
        cluster = cls(wanted, serving, files.bundle(), streams)
        write_kubeconfig(data.kubeconfig, cluster.address, files.bundle(), token)
        await cluster._populate(server, token, stack)
        return cluster

    @property
    def address(self) -> str:
        return f"https://{HOST}:{self.serving.port}"

    def facts(self) -> dict[str, Any]:
        return {
            "server": self.address,
            "pid": os.getpid(),
            "port": self.serving.port,
            "kubeconfig": str(self.wanted.data.kubeconfig),
            "dataDir": str(self.wanted.data.root),
            "nodes": self.nodes,
            "gpusPerNode": self.wanted.gpus,
            "version": ome.__version__,
            "startedAt": timestamp(self.started_at),
        }

    async def _populate(self, server: ApiServer, token: str, stack: contextlib.AsyncExitStack) -> None:
        clock = SystemClock()

        def client(name: str) -> Client:
            return Client(InProcessTransport(server, token, user_agent=name), field_manager=name)

        control, node = client("kube-controller-manager"), client("kubelet")
        caches = Caches(control, clock)
        workloads = LocalWorkloads(
            control,
            clock,
            caches=caches,
            volume_folder=str(self.wanted.data.volumes),
            node_grace=self.wanted.node_grace,
        )
        pods = await stack.enter_async_context(
            process_pods(
                node,
                caches,
                self.wanted.data.root,
                address_of=lambda uid: nodes.kubelet.address_of(uid),
                api_server=(HOST, self.serving.port),
            )
        )
        nodes = NodeStandIn(
            node,
            clock,
            nodes=self.wanted.nodes,
            gpus=self.wanted.gpus,
            caches=caches,
            runtimes=[pods.runtime],
            node_grace=self.wanted.node_grace,
        )
        report_to(nodes.kubelet, pods)
        self.streams.attach(pods.runtime)
        parts = {
            "caches": caches.run(),
            "workloads": workloads.run(),
            "nodes": nodes.run(),
            "forwarder": pods.forwarder.run(),
        }
        for name, work in parts.items():
            stack.push_async_callback(_cancel, self._spawn(name, work))
        await _install(client("ome-install"))
        await asyncio.to_thread(managing.stop, self.wanted.data)  # left behind by a cluster process that was killed
        stack.push_async_callback(asyncio.to_thread, managing.stop, self.wanted.data)
        if self.wanted.manager:
            await asyncio.to_thread(self._start_manager)
        stack.push_async_callback(_cancel, self._spawn("manager token", self._keep_token()))
        self.nodes = max(self.nodes, len((await control.list(NODES)).items))  # the last time there may have been more

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A part that must live as long as the cluster: its death ends the process."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._died)
        return task

    def _died(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        log.critical("%s ended: %r", task.get_name(), task.exception(), exc_info=task.exception())
        self.broken.set()

    def _client(self) -> SyncClient:
        return SyncClient(ClusterConfig.load(str(self.wanted.data.kubeconfig)), user_agent="ome-local")

    def _start_manager(self) -> None:
        with self._client() as client:
            managing.start(self.wanted.data, client, self.address, self.bundle, self.wanted.manager_arguments)

    async def _keep_token(self) -> None:
        """Renew the manager's token long before it runs out, whoever started the manager.

        By the wall clock: while a laptop sleeps, its timers stand still and tokens run out all the same.
        """
        while True:
            await asyncio.sleep(managing.LOOK_EVERY)
            if not managing.is_running(self.wanted.data) or not managing.token_is_old(self.wanted.data):
                continue
            try:
                await asyncio.to_thread(self._renew_token)
            except (KubeError, OSError) as error:
                log.warning("the manager's token was not renewed: %s", error)

    def _renew_token(self) -> None:
        with self._client() as client:
            managing.renew_token(self.wanted.data, client)


async def _install(client: Client) -> None:
    try:
        await install_base(client)
    except KubeError as error:
        raise Refusal(f"OME could not be installed: {error}") from error


def _database(data: DataDir) -> Database:
    try:
        return Database(data.database)
    except sqlite3.Error as error:
        raise Refusal(_damaged(data, error)) from error


async def _load(server: ApiServer, data: DataDir) -> None:
    """Start the API server with what the database holds."""
    try:
        await server.start()
    except (sqlite3.Error, ValueError) as error:
        raise Refusal(_damaged(data, error)) from error


def _damaged(data: DataDir, error: Exception) -> str:
    return (
        f"the database {data.database} cannot be read ({error}); it is left as it is: "
        "move it away, or delete all data with `ome local reset`"
    )


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


async def _listen(server: ApiServer, port: int, files: certificates.Certificates) -> Serving:
    try:
        return await serve(server, host=HOST, port=port, tls=files.server_context())
    except OSError as error:
        await server.stop()
        if error.errno == errno.EADDRINUSE:
            raise Refusal(f"port {port} is taken by another program; choose another one with --port") from error
        raise Refusal(f"cannot listen on {HOST}:{port}: {error.strerror or error}") from error


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
