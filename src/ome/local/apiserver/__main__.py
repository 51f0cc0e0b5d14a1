"""`python -m ome.local.apiserver`: the API server alone, for development and comparison; no nodes, no workloads.

Prints the path of a kubeconfig once it serves, and ends on SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import secrets
import signal
from pathlib import Path

from ome.local.apiserver import certificates
from ome.local.apiserver.auth import MASTERS
from ome.local.apiserver.durable import Database
from ome.local.apiserver.events import HOUR
from ome.local.apiserver.http import User
from ome.local.apiserver.kubeconfig import write_kubeconfig
from ome.local.apiserver.sender import HttpSender
from ome.local.apiserver.serve import serve
from ome.local.apiserver.server import ApiServer
from ome.local.apiserver.tokens import load_key


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ome.local.apiserver", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--data-dir", type=Path, required=True, help="certificates, kubeconfig and database")
    parser.add_argument("--token", default="", help="the administrator's bearer token; made up when empty")
    return parser.parse_args()


async def _run(arguments: argparse.Namespace) -> None:
    folder: Path = arguments.data_dir
    files = certificates.ensure(folder / "pki", [arguments.host], certificates.utc_now())
    token = arguments.token or secrets.token_urlsafe(24)
    administrator = User("kubernetes-admin", groups=("kubeadm:cluster-admins", MASTERS))
    sender = HttpSender()
    server = ApiServer(
        tokens={token: administrator},
        address=f"{arguments.host}:{arguments.port}",
        certificate=files.bundle(),
        database=Database(folder / "cluster.db"),
        token_key=load_key(files.token_key),
        event_ttl=HOUR,
        send=sender,
    )
    await server.start()
    serving = await serve(server, host=arguments.host, port=arguments.port, tls=files.server_context())
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    path = folder / "kubeconfig"
    write_kubeconfig(path, f"https://{arguments.host}:{serving.port}", files.bundle(), token)
    print(path, flush=True)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    await serving.close()
    await sender.close()


if __name__ == "__main__":
    asyncio.run(_run(_arguments()))
