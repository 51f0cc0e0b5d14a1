"""A small API server at the HTTP edge for kubectl-ome, and a way to run the tool against it in-process with a clock
of its own.

It knows objects by path, label selectors, pages, JSON patches and nothing else; tests script what happens before a
request.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ome.cli.app import App, SystemTime
from ome.cli.tree import run
from ome.kube.resources import Resource
from tests.support.cli_objects import NOW


@dataclass
class Call:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any = None


@dataclass
class Answer:
    """A scripted answer; `drop` closes the connection without one. `lines` are streamed."""

    status: int = 200
    body: Any = None
    drop: bool = False
    lines: list[Any] | None = None
    text: bytes | None = None


Hook = Callable[[Call], Answer | None]


def status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> Answer:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return Answer(code, body | {"details": details or {}})


FAILED_TEST = status(422, "Invalid", "the server rejected our request due to an error in our request")


class _PatchTestFailed(Exception):
    pass


def _apply(obj: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    found = deepcopy(obj)
    for operation in operations:
        *parents, last = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
        holder = found
        for part in parents:
            if part not in holder:
                raise _PatchTestFailed
            holder = holder[part]
        if operation["op"] == "test":
            if holder.get(last) != operation["value"]:
                raise _PatchTestFailed
        elif operation["op"] in ("add", "replace"):
            if operation["op"] == "replace" and last not in holder:
                raise _PatchTestFailed
            holder[last] = deepcopy(operation["value"])
        else:
            holder.pop(last, None)
    return found


@dataclass
class StubCluster:
    """The objects, the calls that came in, and what a test scripted."""

    port: int = 0
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    version: int = 200_000

    def put(self, resource: Resource, *objs: dict[str, Any]) -> None:
        for obj in objs:
            meta = obj["metadata"]
            self.objects[resource.path(meta.get("namespace", ""), meta["name"])] = deepcopy(obj)

    def read(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        return self.objects[resource.path(namespace, name)]

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        del self.objects[resource.path(namespace, name)]

    def change(self, resource: Resource, name: str, namespace: str, edit: Callable[[dict[str, Any]], Any]) -> None:
        """Edit one object as somebody else would: its resourceVersion moves."""
        obj = self.read(resource, name, namespace)
        edit(obj)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)

    def before(self, method: str, part: str, action: Callable[[], Any], *, nth: int = 1) -> None:
        """Run `action` before the nth matching request is answered; an Answer it returns replaces the real one."""
        seen = 0

        def hook(call: Call) -> Answer | None:
            nonlocal seen
            if call.method == method and part in call.path:
                seen += 1
                if seen == nth:
                    answer = action()
                    return answer if isinstance(answer, Answer) else None
            return None

        self.hooks.append(hook)

    def always(self, method: str, part: str, answer: Answer) -> None:
        self.hooks.append(lambda call: answer if call.method == method and part in call.path else None)

    def sent(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    # -- the server ----------------------------------------------------------------------------------------------------

    def answer(self, call: Call) -> Answer:
        self.calls.append(call)
        for hook in self.hooks:
            scripted = hook(call)
            if scripted is not None:
                return scripted
        if call.method == "PATCH":
            return self._patch(call)
        if call.path in self.objects:
            return Answer(body=self.objects[call.path])
        if call.path.endswith("/scale") and call.path.removesuffix("/scale") in self.objects:
            return Answer(body=_scale_of(self.objects[call.path.removesuffix("/scale")]))
        steps = call.path.split("/")[3 if call.path.startswith("/api/") else 4 :]
        if len(steps) == (3 if steps[0] == "namespaces" else 1):
            return self._list(call)
        return self._missing(call.path)

    def _missing(self, path: str) -> Answer:
        plural, name = path.split("/")[-2:]
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        kind = f"{plural}.{group}" if group else plural
        return status(404, "NotFound", f'{kind} "{name}" not found', {"name": name, "group": group, "kind": plural})

    def _list(self, call: Call) -> Answer:
        prefix = call.path
        plural = prefix.rsplit("/", 1)[1]
        wanted = dict(pair.split("=", 1) for pair in call.query.get("labelSelector", "").split(",") if pair)
        base = prefix.split("/namespaces/")[0] if "/namespaces/" in prefix else prefix.rsplit("/", 1)[0]
        found = []
        for path, obj in sorted(self.objects.items()):
            inside = path.startswith(prefix + "/") if "/namespaces/" in prefix else path.startswith(base + "/")
            if not inside or path.split("/")[-2] != plural:
                continue
            labels = obj["metadata"].get("labels") or {}
            if all(labels.get(key) == value for key, value in wanted.items()):
                found.append(obj)
        start, limit = int(call.query.get("continue") or 0), int(call.query.get("limit") or 0) or len(found) or 1
        meta: dict[str, Any] = {"resourceVersion": str(self.version)}
        if start + limit < len(found):
            meta["continue"] = str(start + limit)
        return Answer(
            body={"kind": "List", "apiVersion": "v1", "metadata": meta, "items": found[start : start + limit]}
        )

    def _patch(self, call: Call) -> Answer:
        path = call.path.removesuffix("/scale")
        if path not in self.objects:
            return self._missing(path)
        try:
            changed = _apply(self.objects[path], call.body)
        except _PatchTestFailed:
            return FAILED_TEST
        self.version += 1
        changed["metadata"]["resourceVersion"] = str(self.version)
        if call.query.get("dryRun") != "All":
            self.objects[path] = changed
        return Answer(body=_scale_of(changed) if call.path.endswith("/scale") else changed)


def _scale_of(obj: dict[str, Any]) -> dict[str, Any]:
    meta = {key: obj["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
    spec = {"replicas": obj["spec"].get("replicas", 0)}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta, "spec": spec}


def _handler(cluster: StubCluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            raw = self.rfile.read(length) if length else b""
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            call = Call(
                self.command,
                parts.path,
                query,
                {key.lower(): value for key, value in self.headers.items()},
                json.loads(raw) if raw else None,
            )
            found = cluster.answer(call)
            if found.drop:
                self.close_connection = True
                self.connection.close()
                return
            if found.lines is not None or found.text is not None:
                data = found.text if found.text is not None else b""
                for line in found.lines or []:
                    data += (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n"
            else:
                data = json.dumps(found.body).encode()
            self.send_response(found.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            try:
                self.end_headers()
                self.wfile.write(data)
            except ConnectionError:
                # The tool has gone, as a test meant it to.
                self.close_connection = True

        do_GET = do_PATCH = do_POST = do_DELETE = _serve  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@contextmanager
def stub_cluster() -> Iterator[StubCluster]:
    cluster = StubCluster()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cluster))
    server.daemon_threads = True
    cluster.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield cluster
    finally:
        server.shutdown()
        server.server_close()


class FakeTime(SystemTime):
    """A clock that stands still but for the tool's own sleeping."""

    def __init__(self, now: datetime = NOW, nanoseconds: int = 418_207_153) -> None:
        self._now = int(now.timestamp()) * 1_000_000_000 + nanoseconds
        self._monotonic = 1000.0
        self.on_sleep: Callable[[], Any] | None = None

    def now_ns(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        self._monotonic += seconds
        self._now += int(seconds * 1e9)
        if self.on_sleep is not None:
            self.on_sleep()


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def write_kubeconfig(
    directory: Path, cluster: StubCluster, namespace: str = "prod", context: str = "prod-cluster"
) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{cluster.port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
    }
    path = directory / "kubeconfig"
    path.write_text(json.dumps(document))
    return path


@dataclass
class Tool:
    """kubectl-ome, run in this process against the stub."""

    cluster: StubCluster
    kubeconfig: Path
    time: FakeTime = field(default_factory=FakeTime)

    def __call__(self, *arguments: str, stdin: Any = None, stdout: io.StringIO | None = None) -> Ran:
        out, err = stdout or io.StringIO(), io.StringIO()
        app = App(stdin=stdin or io.StringIO(""), stdout=out, stderr=err, time=self.time)
        code = run([*arguments, "--kubeconfig", str(self.kubeconfig)], app)
        return Ran(code, out.getvalue(), err.getvalue())
