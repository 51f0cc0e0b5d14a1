"""`ome local run`, the front door: a cluster, OME, a model, and the answer to one question; then it stays until Ctrl-C.

The cluster runs in this process, in the foreground. The tour runs beside it in a thread, through the public API like
any user: it applies the example, says what is waited for and for how long, asks, and prints what to try next.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import click

from ome.kube.config import ClusterConfig
from ome.kube.errors import ApiError, KubeError, NotFound
from ome.kube.resources import CLUSTER_BASE_MODELS, EVENTS, INFERENCE_SERVICES, NODES, PODS
from ome.kube.sync import SyncClient
from ome.local.commands import catalogue
from ome.local.commands.catalogue import LLAMA, SIMULATED, Example
from ome.local.commands.data import DataDir, already_running, read_json, usual_folder
from ome.local.commands.life import DEFAULT_PORT
from ome.local.commands.models import mark_ready
from ome.local.commands.options import data_option
from ome.local.commands.refusals import Refusal

QUESTION: Final = "What is the capital of France?"
WAIT: Final = 180.0
FIELD_MANAGER: Final = "ome-local"


@click.command()
@data_option
@click.option(
    "--engine",
    type=click.Choice(["llama", "simulated"]),
    default="llama",
    show_default=True,
    help="llama: a real language model on this machine's processor; simulated: a stand-in without weights.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0: a free one.")
@click.option("--nodes", type=click.IntRange(1, 100), default=1, show_default=True)
@click.option("--exit-after-tour", is_flag=True, help="Stop when the tour is over, with its exit code.")
def run(data: DataDir, engine: str, port: int, nodes: int, exit_after_tour: bool) -> None:
    """Start a cluster with OME, serve a model on it, ask it something, and stay until Ctrl-C."""
    if data.is_held():
        raise Refusal(already_running(data))
    from ome.local.commands import serve

    example = LLAMA if engine == "llama" else SIMULATED
    log = data.log
    data.prepare()
    serve.log_to(log)
    tour = Tour(data, example, exit_after_tour)
    tour.say(f"starting the cluster (log: {log})")
    wanted = serve.Wanted(data, port, nodes, 8, True)
    serve.run(wanted, tour.begin, tour.stop)
    tour.end()


class Tour:
    """What happens beside the cluster once it serves."""

    def __init__(self, data: DataDir, example: Example, exit_after: bool) -> None:
        self._data = data
        self._example = example
        self._exit_after = exit_after
        self._began = time.monotonic()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._marks: list[tuple[str, float]] = []
        self._failed = False

    # -- talking -----------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """One line, with the seconds since the start."""
        click.echo(f"[{time.monotonic() - self._began:5.1f} s] {text}")

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """A part of the way, for the table at the end."""
        began = time.monotonic()
        self.say(text)
        yield
        self._marks.append((text, time.monotonic() - began))

    # -- life --------------------------------------------------------------------------------------------------------

    def begin(self, facts: dict[str, Any]) -> None:
        """The cluster serves: start the thread."""
        self._marks.append(("start of the cluster and OME", time.monotonic() - self._began))
        self._thread = threading.Thread(target=self._run, args=(facts,), name="tour", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The cluster stops: what fails from here on is no failure of the tour."""
        self._stopping.set()

    def end(self) -> None:
        """The cluster has stopped. Exits 1 when the tour failed."""
        self.stop()
        if self._thread is not None:
            self._thread.join(5)
        if self._failed:
            sys.exit(1)
        if not self._exit_after:
            with contextlib.suppress(OSError):  # a closed terminal
                self.say("stopped; what was made is kept for the next start (ome local reset deletes it)")

    def _run(self, facts: dict[str, Any]) -> None:
        over = self._exit_after
        try:
            self._walk(facts)
        except (Refusal, KubeError, OSError) as error:
            if not self._stopping.is_set():
                text = error.format_message() if isinstance(error, click.ClickException) else str(error)
                self._failed = self._exit_after
                try:
                    self.say(f"the tour stopped: {text}")
                    if not self._exit_after:
                        click.echo("The cluster goes on; Ctrl-C stops it.")
                except OSError:  # nobody reads on, as behind `| head`
                    over = True
        if over:
            os.kill(os.getpid(), signal.SIGTERM)

    def _walk(self, facts: dict[str, Any]) -> None:
        example = self._example
        self.say(f"cluster serving on {facts['server']}")
        with SyncClient(ClusterConfig.load(facts["kubeconfig"]), user_agent="ome-local") as client:
            if example.model:
                click.echo(f"          {catalogue.WEIGHTS_LICENCE}")
                with self.step("putting the weights where the node has its models"):
                    self._stage_weights(client)
            with self.step(f"applying the example: InferenceService {example.namespace}/{example.service}"):
                self._apply(client)
            with self.step("waiting until the service is ready"):
                self._wait_ready(client)
            with self.step("asking the model"):
                url, answer = self._ask()
        click.echo("")
        click.echo(f"  > {QUESTION}")
        click.echo(f"  {answer}")
        self._print_times()
        self._print_next(url, facts["kubeconfig"])

    # -- steps -------------------------------------------------------------------------------------------------------

    def _stage_weights(self, client: SyncClient) -> None:
        """One copy of the weights, linked into every node's file system."""
        shared = self._data.root / "weights"
        file = catalogue.assemble_weights(shared, self.say)
        for node in self._nodes(client):
            target = self._data.root / "nodes" / node / self._example.model_path.lstrip("/") / file.name
            if target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(file, target)

    def _nodes(self, client: SyncClient) -> list[str]:
        def found() -> list[str]:
            return [node["metadata"]["name"] for node in client.list(NODES)]

        nodes: list[str] = self._until(found, "a node", 30)
        return nodes

    def _apply(self, client: SyncClient) -> None:
        """Apply the manifests; the webhooks may need a moment, so a refusal for that is tried again."""
        for resource, body in catalogue.manifests(self._example):
            self._until(partial(self._applied, client, resource, body), f"{body['kind']} to be accepted", 60)
            if resource is CLUSTER_BASE_MODELS:
                name = body["metadata"]["name"]
                mark_ready(client, name, nodes=self._nodes(client))
                self._until(partial(self._model_ready, client, name), f"model {name}", 60)

    def _applied(self, client: SyncClient, resource: Any, body: dict[str, Any]) -> bool:
        try:
            client.apply(resource, body, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.status_code >= 500:
                return False
            raise
        return True

    def _model_ready(self, client: SyncClient, name: str) -> bool:
        found = client.get(CLUSTER_BASE_MODELS, name)
        return bool((found.get("status") or {}).get("state") == "Ready")

    def _wait_ready(self, client: SyncClient) -> None:
        """Wait for the Ready condition, saying every few seconds what it waits for; a failing pod is told at once."""
        example = self._example
        deadline = time.monotonic() + WAIT
        said = ""
        while not self._stopping.is_set():
            service = client.get(INFERENCE_SERVICES, example.service, example.namespace)
            conditions = {c["type"]: c for c in (service.get("status") or {}).get("conditions") or ()}
            if conditions.get("Ready", {}).get("status") == "True":
                return
            text = self._waiting_for(client, conditions)
            if text and text != said:
                self.say(f"  {text}")
                said = text
            if time.monotonic() > deadline:
                raise Refusal(f"{example.namespace}/{example.service} was not ready within {WAIT:g} s: {said}")
            time.sleep(0.2)
        raise Refusal("stopped")

    def _waiting_for(self, client: SyncClient, conditions: dict[str, Any]) -> str:
        example = self._example
        selector = f"ome.io/inferenceservice={example.service}"
        pods = client.list(PODS, example.namespace, label_selector=selector)
        for pod in pods:
            for status in (pod.get("status") or {}).get("containerStatuses") or ():
                waiting = (status.get("state") or {}).get("waiting") or {}
                if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                    return f"pod {pod['metadata']['name']}: {waiting['reason']}: {waiting.get('message', '')}"
            if (pod.get("status") or {}).get("phase") == "Running":
                return f"pod {pod['metadata']['name']} runs, the model is being loaded"
            unscheduled = [
                c for c in (pod.get("status") or {}).get("conditions") or () if c.get("reason") == "Unschedulable"
            ]
            if unscheduled:
                return f"pod {pod['metadata']['name']}: {unscheduled[0].get('message', '')}"
        if pods:
            return f"pod {pods[0]['metadata']['name']} is being started"
        warnings = client.list(EVENTS, example.namespace, field_selector=f"involvedObject.name={example.service}")
        for event in warnings:
            if event.get("type") == "Warning":
                return f"{event.get('reason')}: {event.get('message')}"
        ready = conditions.get("Ready", {})
        return str(ready.get("message") or "")

    def _ask(self) -> tuple[str, str]:
        example = self._example
        key = f"{example.namespace}/{example.service}"
        url = self._until(lambda: read_json(self._data.urls).get(key), f"an address of {key}", 20)
        answer = self._until(lambda: ask(str(url), example.service, QUESTION), "an answer", 60)
        return str(url), answer

    def _until(self, look: Callable[[], Any], what: str, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while not self._stopping.is_set():
            with contextlib.suppress(NotFound):
                found = look()
                if found:
                    return found
            if time.monotonic() > deadline:
                raise Refusal(f"waited {seconds:g} s for {what} in vain; see {self._data.manager_log}")
            time.sleep(0.1)
        raise Refusal("stopped")

    # -- the end -----------------------------------------------------------------------------------------------------

    def _print_times(self) -> None:
        click.echo("")
        width = max(len(text) for text, _ in self._marks)
        for text, seconds in self._marks:
            click.echo(f"  {text:<{width}}  {seconds:5.1f} s")
        click.echo(f"  {'from the start to the answer':<{width}}  {time.monotonic() - self._began:5.1f} s")

    def _print_next(self, url: str, kubeconfig: str) -> None:
        example, root = self._example, self._data.root
        where = "" if root == usual_folder() else f" --data-dir {shlex.quote(str(root))}"
        click.echo("")
        click.echo(f"  The model answers at {url}/v1/chat/completions")
        click.echo("")
        click.echo("  Try next, in another terminal:")
        click.echo(f"    .venv/bin/ome local chat{where} {example.namespace}/{example.service}")
        click.echo(f"    export KUBECONFIG={shlex.quote(kubeconfig)} PATH=$PWD/.venv/bin:$PATH")
        click.echo(f"    kubectl get inferenceservice,pods -n {example.namespace}")
        click.echo(f"    kubectl ome status {example.service} -n {example.namespace}")
        if not self._exit_after:
            click.echo("")
            click.echo("  Ctrl-C stops everything.")


def ask(url: str, model: str, question: str) -> str:
    """One chat completion; empty when the server has none to give yet. Raises OSError."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        body = {"model": model, "messages": [{"role": "user", "content": question}]}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        raw = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        return ""
    return str(json.loads(raw)["choices"][0]["message"]["content"]).strip()
