#!/usr/bin/env python3
"""A real Kubernetes control plane on loopback, built from the Go modules of go.mod: the judge of the embedded one.

    control_plane.py build               build etcd and three Kubernetes programs into the cache
    control_plane.py up [--nodes MODE]   start them; prints the kubeconfig's path
                                         (MODE: standin, the default: the product's node stand-in; or none)
    control_plane.py down                end what `up` started
    control_plane.py status              say what runs

The cache is $XDG_CACHE_HOME/ome/kubernetes (default ~/.cache), keyed by version; the running cluster's state is in its
`run` folder. Run with the project's Python: certificates come from `cryptography`.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import ipaddress
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import NoReturn

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ome" / "kubernetes"
RUN = pathlib.Path(os.environ.get("OME_KUBE_RUN_DIR") or CACHE / "run")
PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
TOKEN = "ome-kube-admin"


def version() -> str:
    """The Kubernetes version that go.mod requires."""
    found = re.search(r"^(?:require|\t)\s*k8s\.io/kubernetes (v\S+)", (HERE / "go.mod").read_text(), re.M)
    if found is None:
        fail("go.mod requires no k8s.io/kubernetes")
    return found[1]


def binaries() -> pathlib.Path:
    return CACHE / version()


def fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(1)


# -- building ----------------------------------------------------------------------------------------------------------


def build() -> None:
    target = binaries()
    missing = [name for name in PROGRAMS if not (target / name).exists()]
    if not missing:
        return
    if shutil.which("go") is None:
        fail("kube targets need Go (1.26 or newer) to build the real control plane; everything else works without it")
    target.mkdir(parents=True, exist_ok=True)
    wanted = version()
    major, minor = wanted.removeprefix("v").split(".")[:2]
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={wanted}"
    flags += f" -X k8s.io/component-base/version.gitMajor={major} -X k8s.io/component-base/version.gitMinor={minor}"
    environment = {**os.environ, "CGO_ENABLED": "0"}
    for number, name in enumerate(missing, 1):
        print(f"building {name} {wanted} ({number} of {len(missing)}; all four take about five minutes)", flush=True)
        began = time.monotonic()
        unfinished = target / f".{name}.{os.getpid()}"
        command = ["go", "build", "-ldflags", flags, "-o", str(unfinished), PROGRAMS[name]]
        if subprocess.run(command, cwd=HERE, env=environment, check=False).returncode != 0:
            fail(f"building {name} failed")
        unfinished.rename(target / name)
        print(f"  done in {time.monotonic() - began:.0f} s", flush=True)


# -- certificates ------------------------------------------------------------------------------------------------------


def write_certificates(folder: pathlib.Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def store(path: str, data: bytes) -> None:
        (folder / path).touch(mode=0o600)
        (folder / path).write_bytes(data)

    def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
        form = serialization.PrivateFormat.TraditionalOpenSSL
        return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())

    now = datetime.datetime.now(datetime.UTC)
    life = (now - datetime.timedelta(hours=1), now + datetime.timedelta(days=365))
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = (
        x509.CertificateBuilder(issuer_name=name("ome-kube-ca"), subject_name=name("ome-kube-ca"))
        .public_key(ca_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(life[0])
        .not_valid_after(life[1])
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())

    def client(common_name: str, organization: str) -> tuple[bytes, bytes]:
        """A client certificate, for the API server when it asks the nodes."""
        client_key = ec.generate_private_key(ec.SECP256R1())
        subject = [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
        signed = (
            x509.CertificateBuilder()
            .issuer_name(ca.subject)
            .subject_name(x509.Name(subject))
            .public_key(client_key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(life[0])
            .not_valid_after(life[1])
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        return signed.public_bytes(serialization.Encoding.PEM), pem(client_key)

    names = [x509.DNSName(n) for n in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")]
    names += [x509.IPAddress(ipaddress.ip_address(a)) for a in ("127.0.0.1", "10.0.0.1")]
    serving = (
        x509.CertificateBuilder(issuer_name=ca.subject, subject_name=name("kube-apiserver"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(life[0])
        .not_valid_after(life[1])
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    asking = client("kube-apiserver-kubelet-client", "system:masters")
    store("apiserver-kubelet-client.crt", asking[0])
    store("apiserver-kubelet-client.key", asking[1])
    store("ca.key", pem(ca_key))
    store("ca.crt", ca.public_bytes(serialization.Encoding.PEM))
    store("apiserver.crt", serving.public_bytes(serialization.Encoding.PEM))
    store("apiserver.key", pem(key))
    account_key = ec.generate_private_key(ec.SECP256R1())
    store("sa.key", pem(account_key))
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    store("sa.pub", account_key.public_key().public_bytes(serialization.Encoding.PEM, public))


def write_kubeconfig(folder: pathlib.Path, port: int, path: str, token: str) -> pathlib.Path:
    import base64

    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ome-kube",
        "clusters": [
            {
                "name": "ome-kube",
                "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority},
            }
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "ome-kube", "context": {"cluster": "ome-kube", "user": "admin"}}],
    }
    target = folder / path
    target.touch(mode=0o600)
    target.write_text(json.dumps(document, indent=1))
    return target


# -- running -----------------------------------------------------------------------------------------------------------


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def start(folder: pathlib.Path, name: str, command: list[str], **environment: str) -> None:
    with (folder / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    (folder / f"{name}.pid").write_text(f"{child.pid} {started_at(child.pid)}")


def started_at(pid: int) -> str:
    """The process's start time in clock ticks since boot, so that a reused pid is not taken for ours."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""


def running(pidfile: pathlib.Path) -> int | None:
    try:
        pid, _, since = pidfile.read_text().partition(" ")
    except OSError:
        return None
    return int(pid) if since and started_at(int(pid)) == since else None


def ready(folder: pathlib.Path, port: int) -> bool:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    request = urllib.request.Request(f"https://127.0.0.1:{port}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=2) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


def start_api(attempts: int = 3) -> pathlib.Path:
    """Start etcd and kube-apiserver and wait until they serve. Returns the administrator's kubeconfig.

    A port that was free a moment ago may be taken when it is bound: then others are tried.
    """
    RUN.mkdir(parents=True)
    write_certificates(RUN)
    (RUN / "tokens.csv").touch(mode=0o600)
    (RUN / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    for last in (*[False] * (attempts - 1), True):
        api, client, peer = free_ports(3)
        start_servers(api, client, peer)
        deadline = time.monotonic() + 240  # ten seconds, and many times that on a machine that is busy
        while (lost := lost_server()) is None and time.monotonic() < deadline:
            if ready(RUN, api):
                return write_kubeconfig(RUN, api, "kubeconfig", TOKEN)
            time.sleep(0.05)
        failed = lost or "kube-apiserver"
        log = (RUN / f"{failed}.log").read_text(errors="replace")
        down(quiet=True)
        if last or "address already in use" not in log:
            fail(f"{failed} did not become ready; the end of its log:\n{log[-1500:]}")
        shutil.rmtree(RUN / "etcd", ignore_errors=True)
    raise AssertionError("the last attempt either serves or fails")


def lost_server() -> str | None:
    """Which of the two servers has ended."""
    return next((name for name in ("etcd", "kube-apiserver") if running(RUN / f"{name}.pid") is None), None)


def start_servers(api: int, client: int, peer: int) -> None:
    programs = binaries()
    start(
        RUN,
        "etcd",
        [
            str(programs / "etcd"),
            "--data-dir=etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        ],
    )
    start(
        RUN,
        "kube-apiserver",
        [
            str(programs / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{client}",
            "--bind-address=127.0.0.1",
            f"--secure-port={api}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={RUN}",
            "--tls-cert-file=apiserver.crt",
            "--tls-private-key-file=apiserver.key",
            "--client-ca-file=ca.crt",
            # The nodes' endpoint lets nobody in without a certificate, and has its own signed by this authority.
            "--kubelet-client-certificate=apiserver-kubelet-client.crt",
            "--kubelet-client-key=apiserver-kubelet-client.key",
            "--kubelet-certificate-authority=ca.crt",
            "--token-auth-file=tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.0.0.0/16",
            f"--service-account-issuer=https://127.0.0.1:{api}",
            "--service-account-key-file=sa.pub",
            "--service-account-signing-key-file=sa.key",
            "--profiling=false",
        ],
    )


def up(nodes: str, quiet: bool = False) -> None:
    build()
    if running(RUN / "kube-apiserver.pid"):
        print(RUN / "kubeconfig")
        return
    down(quiet=True)
    shutil.rmtree(RUN, ignore_errors=True)
    programs = binaries()
    began = time.monotonic()
    kubeconfig = start_api()
    start(
        RUN,
        "kube-controller-manager",
        [
            str(programs / "kube-controller-manager"),
            f"--kubeconfig={kubeconfig}",
            "--secure-port=0",
            "--use-service-account-credentials",
            "--service-account-private-key-file=sa.key",
            "--root-ca-file=ca.crt",
            "--cluster-signing-cert-file=ca.crt",
            "--cluster-signing-key-file=ca.key",
            "--leader-elect=false",
            "--profiling=false",
        ],
    )
    start(
        RUN,
        "kube-scheduler",
        [
            str(programs / "kube-scheduler"),
            f"--kubeconfig={kubeconfig}",
            "--secure-port=0",
            "--leader-elect=false",
            "--profiling=false",
        ],
    )
    if not quiet:
        print(f"control plane {version()} ready in {time.monotonic() - began:.1f} s", file=sys.stderr)
    if nodes != "none":
        program = str(pathlib.Path(sys.executable).with_name("ome"))
        start(
            RUN,
            "nodes",
            [program, "local", "nodes", "--kubeconfig", str(kubeconfig), "--nodes", nodes.partition(":")[2] or "2"],
            OME_LOCAL_DATA_DIR=str(RUN / "nodes"),
        )
    print(kubeconfig)


def down(quiet: bool = False) -> None:
    pids = {
        name: running(RUN / f"{name}.pid")
        for name in ("nodes", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
    }
    for name, pid in pids.items():
        if pid is None:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while running(RUN / f"{name}.pid") and time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.05)
        if running(RUN / f"{name}.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        (RUN / f"{name}.pid").unlink(missing_ok=True)
    if not quiet:
        print("stopped" if any(pids.values()) else "nothing was running", file=sys.stderr)


def status() -> None:
    for name in (*PROGRAMS, "nodes"):
        pid = running(RUN / f"{name}.pid")
        print(f"{name}: {'pid ' + str(pid) if pid else 'not running'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("build", "up", "down", "status"))
    parser.add_argument("--nodes", default="standin", help="none, standin, or standin:N")
    options = parser.parse_args()
    if options.command == "up":
        up(options.nodes)
    else:
        {"build": build, "down": down, "status": status}[options.command]()


if __name__ == "__main__":
    main()
