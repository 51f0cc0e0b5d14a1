"""Both founding walkthroughs with the manager bound to exactly its generated roles, and to those less one rule.

The whole manager runs here, as its ServiceAccount: it elects itself, keeps its own certificates and answers reviews.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from ome.admission.certificates import make_bundle
from ome.admission.server import Webhooks
from ome.install import UrlWebhook, roles
from ome.kube.controller import Environment
from ome.kube.errors import Forbidden, KubeError
from ome.kube.requests import Request
from ome.kube.resources import (
    CLUSTER_BASE_MODELS,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    NODES,
    PODS,
    SERVICES,
)
from ome.kube.transport import Response
from ome.local.apiserver.server import ApiServer
from ome.local.apiserver.webhooks import SendError
from ome.local.inprocess import InProcessTransport
from ome.manager.flags import StartupProblem, parse_flags
from ome.manager.metrics import ManagerMetrics
from ome.manager.process import Manager
from tests.component.omenative.stage import MISSING, QUICK, chat, images, settled, state, status
from tests.support.virtual_time import run_virtual
from tests.support.world import MANAGER, World, embedded_world

pytestmark = pytest.mark.embedded_only("builds a manager in the API server's own loop")

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
FLAGS = (
    "--leader-elect",
    "--webhook",
    "--webhook-host=127.0.0.1",
    "--webhook-port=0",
    "--metrics-bind-address=0",
    "--health-probe-addr=0",
    "--runtime-revision-retention=1",
    "--runtime-revision-grace-period=1s",
)
SOON = 20.0
"""Seconds of virtual time in which every step is done when nothing is missing."""
HASTE = {
    **QUICK,
    "stuckPodGracePeriod": "2s",
    "updateRetry": {**QUICK["updateRetry"], "initialDelay": "1s"},
}


@pytest.fixture(autouse=True)
def no_frozen_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager has the collector look once and then leaves what is there alone for good: not in a test's process."""
    monkeypatch.setattr("ome.manager.process.gc", SimpleNamespace(collect=int, freeze=int))


class Noting(InProcessTransport):
    """Keeps what the manager was refused."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server, MANAGER)
        self.refused: list[str] = []

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        if response.status == 403:
            self.refused.append(f"{request.method} {request.path}")
        return response


class InLoop(Manager):
    """A manager whose reviews come without a socket."""

    checks: Webhooks | None = None

    async def _build_webhooks(self, environment: Environment, stack: contextlib.AsyncExitStack) -> Any:
        self.checks = Webhooks(environment)
        return await super()._build_webhooks(environment, stack)

    async def review(self, url: str, authority: bytes, body: bytes) -> tuple[int, bytes]:
        if self.checks is None or self.not_ready():
            raise SendError("connect: connection refused")
        if not authority:
            raise SendError("x509: certificate signed by unknown authority")
        return await self.checks.respond(urlsplit(url).path, body)


def mount_certificate(folder: Path, world: World) -> UrlWebhook:
    """What cert-manager does: a certificate in the manager's folder, its authority in the webhook configurations."""
    bundle = make_bundle(["127.0.0.1"], world.clock.now())
    (folder / "tls.crt").write_bytes(bundle.certificate)
    (folder / "tls.key").write_bytes(bundle.key)
    return UrlWebhook("https://127.0.0.1:9443", base64.b64encode(bundle.authority).decode())


@contextlib.asynccontextmanager
async def stage(mounted: Path | None = None) -> AsyncIterator[tuple[World, InLoop, Noting]]:
    """A cluster with two nodes, a manager that does not run yet, and its line to the API server.

    `mounted`: a folder for the certificate that somebody else makes, and the roles are those of the chart then.
    """
    staged: list[InLoop] = []

    async def send(url: str, authority: bytes, body: bytes, timeout: float) -> tuple[int, bytes]:
        return await staged[0].review(url, authority, body)

    async with embedded_world(send=send) as world:
        assert world.server is not None
        transport = Noting(world.server)
        flags = parse_flags([*FLAGS, f"--webhook-cert-dir={mounted or ''}"])
        staged.append(InLoop(flags, transport, clock=world.clock, namespace="ome", metrics=ManagerMetrics()))
        if mounted is None:
            await world.install(webhook=UrlWebhook("https://127.0.0.1:9443"))
        else:
            await world.install(webhook=mount_certificate(mounted, world), certificates="cert-manager")
        lifecycle = {"data": {"lifecycle": json.dumps(HASTE)}}
        await world.merge(CONFIG_MAPS, "inferenceservice-config", "ome", lifecycle)
        world.start_nodes(2)
        world.start_workloads()
        yield world, staged[0], transport


# -- the walkthroughs, condensed ---------------------------------------------------------------------------------------

NS, NAME = "llama-demo", "llama-3-2-3b-instruct"
PREFIX = "r-llama-demo-sglang-llama-3-2-3b-"
FIRST, SECOND = PREFIX + "590753e8", PREFIX + "af9539ac"
RELEASE = "ome.io/release-held-revision"


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def runtime(fraction: str) -> Any:
    text = (ROOT / "tests/scenario/data/runtime.yaml").read_text()
    return yaml.safe_load(text.replace("--mem-frac=0.9", f"--mem-frac={fraction}"))


def pinned(**reference: str) -> dict[str, Any]:
    wanted = {"name": "sglang-llama-3-2-3b", "kind": "ServingRuntime", "autoSync": False, **reference}
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": NAME, "namespace": NS},
        "spec": {"model": {"name": NAME}, "runtime": wanted, "engine": {"minReplicas": 1, "maxReplicas": 1}},
    }


def found_by_the_agent(model: str, architecture: str, size: str, version: str) -> str:
    config = {
        "modelArchitecture": architecture,
        "modelFormat": {"name": "safetensors", "version": "1.0.0"},
        "modelFramework": {"name": "transformers", "version": version},
        "modelParameterSize": size,
    }
    return json.dumps({"name": model, "status": "Ready", "config": config})


MODELS = {
    NAME: ("config/models/meta/Llama-3.2-3B-Instruct.yaml", "LlamaForCausalLM", "3.21B", "4.45.0.dev0"),
    "qwen3-0-6b": ("config/models/Qwen/Qwen3-0.6B.yaml", "Qwen3ForCausalLM", "596M", "4.51.0"),
}


async def models_are_ready(world: World) -> None:
    """Both models applied, and what the model agent says of them."""
    await world.apply(*(read(path) for path, *_ in MODELS.values()))
    nodes = [node["metadata"]["name"] for node in await world.list(NODES)]
    marks = {f"models.ome.io/clusterbasemodel.{name}": "Ready" for name in MODELS}
    for node in nodes:
        await world.merge(NODES, node, "", {"metadata": {"labels": marks}})
    report = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": nodes[0],
            "namespace": "ome",
            "labels": {"models.ome/basemodel-status": "true", "node": nodes[0]},
        },
        "data": {f"clusterbasemodel.{name}": found_by_the_agent(name, *facts) for name, (_, *facts) in MODELS.items()},
    }
    await world.apply(report)

    async def ready() -> None:
        for model in await world.list(CLUSTER_BASE_MODELS):
            assert model["status"]["state"] == "Ready"

    await world.eventually(ready, timeout=SOON)


async def service_of(world: World, namespace: str, name: str) -> Any:
    return await world.get(INFERENCE_SERVICES, name, namespace)


async def revisions_and_pinning(world: World) -> None:
    """Pin, drift, roll forward, roll back, a refused name, follow the runtime again, garbage, removal."""

    async def shows(revision: str, drifted: str, fraction: str) -> None:
        """The pin, the reason of the drift, the arguments that serve, and that they do."""

        async def check() -> None:
            shown = (await service_of(world, NS, NAME))["status"]
            conditions = {condition["type"]: condition for condition in shown["conditions"]}
            assert shown["pinnedRevisionName"] == revision
            assert conditions.get("RuntimeDrifted", {}).get("reason", "") == drifted
            deployment = await world.get(DEPLOYMENTS, f"{NAME}-engine", NS)
            container = deployment["spec"]["template"]["spec"]["containers"][0]
            assert container["args"][-1] == f"--mem-frac={fraction}"
            assert conditions["Ready"]["status"] == "True"
            assert deployment["status"]["readyReplicas"] == 1

        await world.eventually(check, timeout=SOON)

    await world.make_namespace(NS)
    await world.apply(runtime("0.9"), pinned())
    await shows(FIRST, "", "0.9")
    assert await world.events(NS, "InferenceServiceReady")
    await world.apply(runtime("0.85"))
    await shows(FIRST, "RevisionMismatch", "0.9")
    await world.annotate(INFERENCE_SERVICES, NAME, NS, **{"ome.io/runtime-sync": "mem-frac-0-85"})
    await shows(SECOND, "", "0.85")
    await world.apply(pinned(revision=FIRST))
    await shows(FIRST, "", "0.9")
    with pytest.raises(Forbidden, match="does not match the expected naming convention"):
        await world.apply(pinned(revision="cr-sglang-llama-3-2-3b-590753e8"))
    following = pinned()
    following["spec"]["runtime"]["autoSync"] = True
    await world.apply(following)
    await shows(FIRST, "", "0.85")

    async def is_gone() -> None:
        assert await world.find(INFERENCE_SERVICES, NAME, NS) is None
        assert await world.list(PODS, NS) == []
        assert len(await world.list(CONTROLLER_REVISIONS, "ome")) == 1

    await world.client.delete(INFERENCE_SERVICES, NAME, NS)
    await world.eventually(is_gone, timeout=SOON)


async def held_and_released(world: World) -> None:
    """Serve, hold at a missing image, release by annotation, finish, removal."""
    await world.make_namespace("prod")
    await world.apply(read("config/runtimes/srt/Qwen/qwen3-0-6b-rt.yaml"), chat())
    await settled(world, timeout=SOON)
    old = {pod["metadata"]["uid"] for pod in await world.list(PODS, "prod")}
    await images(world, "*:v0.0.0-missing*")
    await world.apply(chat(MISSING))

    async def is_held() -> bool:
        return await state(world) == "Held"

    await world.until(is_held, timeout=SOON)
    revision = (await status(world))["updateRevision"]
    assert old <= {pod["metadata"]["uid"] for pod in await world.list(PODS, "prod")}
    events = await world.events("prod", "RetryHeld")
    assert ["held after 3 failed attempt(s)" in event["message"] for event in events] == [True]
    await images(world)
    await world.annotate(INFERENCE_REPLICAS, "chat-engine", "prod", **{RELEASE: revision})

    async def is_released() -> None:
        shown = await status(world)
        assert "retryBlocks" not in shown
        assert shown["currentRevision"] == revision
        assert shown["availableReplicas"] == 3
        conditions = {c["type"]: c for c in (await service_of(world, "prod", "chat"))["status"]["conditions"]}
        assert conditions["Ready"]["status"] == "True"

    await world.eventually(is_released, timeout=SOON)
    assert await world.events("prod", "RetryBlockReleased")
    service = await world.get(SERVICES, "chat-engine", "prod")
    assert service["spec"]["selector"]
    await world.client.delete(INFERENCE_SERVICES, "chat", "prod")

    async def is_gone() -> None:
        assert await world.find(INFERENCE_REPLICAS, "chat-engine", "prod") is None
        assert await world.list(PODS, "prod") == []

    await world.eventually(is_gone, timeout=SOON)


async def both(world: World, manager: InLoop) -> None:
    async def serving() -> bool:
        return manager.checks is not None and not manager.not_ready()

    await world.until(serving, timeout=SOON)
    await models_are_ready(world)
    async with asyncio.TaskGroup() as group:
        group.create_task(revisions_and_pinning(world))
        group.create_task(held_and_released(world))


class Failed(Exception):
    """A walkthrough did not go as it should."""


async def walk(world: World, manager: InLoop) -> None:
    """Raises Failed with what a person would see go wrong, or with what the manager ends with."""
    running = asyncio.create_task(manager.run())
    story = asyncio.create_task(both(world, manager))
    try:
        await asyncio.wait({running, story}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        await story
    except* (AssertionError, LookupError, KubeError, StartupProblem) as errors:
        raise Failed(repr(errors)) from errors
    finally:
        for task in (running, story):
            task.cancel()
        await asyncio.gather(running, story, return_exceptions=True)


# -- the rules ---------------------------------------------------------------------------------------------------------

LOOK = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Part:
    """What one role says of one resource: its verbs that look, or those that change."""

    role: str
    group: str
    resource: str
    looks: bool

    def __str__(self) -> str:
        role = "" if self.role == roles.MANAGER else f" ({self.role.removeprefix(roles.MANAGER + '-')})"
        return f"{'look at' if self.looks else 'change'} {self.resource} of {self.group or 'core'}{role}"

    def taken_from(self, rule: Json) -> list[Json]:
        """The rule without it."""
        if self.group not in rule["apiGroups"] or self.resource not in rule["resources"]:
            return [rule]
        others = [resource for resource in rule["resources"] if resource != self.resource]
        verbs = [verb for verb in rule["verbs"] if (verb in LOOK) is not self.looks]
        left = [{**rule, "resources": others}] if others else []
        return [*left, {**rule, "resources": [self.resource], "verbs": verbs}] if verbs else left


def manager_roles() -> list[Json]:
    return [entry for entry in roles.manager_access("ome") if entry["kind"] in ("Role", "ClusterRole")]


def parts() -> list[Part]:
    """All that the manager's roles say."""
    found = {
        Part(role["metadata"]["name"], group, resource, verb in LOOK)
        for role in manager_roles()
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    return sorted(found, key=str)


BOTH = "(look at|change) "
NOT_NEEDED = {
    BOTH + r"\w+/finalizers of ome.io": "asked for only where the cluster checks who blocks an owner's deletion",
    r"look at \w+/status of ome.io": "a status is read with its object; a write is one patch",
    r"look at (pods|deployments)/status of (core|apps)": "a status is read with its object; a write is one patch",
    BOTH + r"inferencereplicas/scale of ome.io": "autoscalers and people scale; the manager applies the whole replica",
    r"change (cluster)?servingruntimes of ome.io": "a runtime is its author's: the manager writes the status alone",
    r"change (cluster)?servingruntimes/status of ome.io": "what a runtime says of itself; no walkthrough reads it",
    r"change acceleratorclasses(/status)? of ome.io": "the walkthroughs name no accelerator class",
    r"change basemodels(/status)? of ome.io": "the walkthroughs' models are ClusterBaseModels",
    r"change finetunedweights(/status)? of ome.io": "the walkthroughs serve no fine-tuned weight",
    BOTH + r"(autoscaler|rollout)policies(/status)? of ome.io": "alpha kinds, which the walkthroughs do not install",
    BOTH + r"(acceleratorquotas|benchmarkjobs|trafficmaps|workloadclusters)(/status)? of ome.io": "other features",
    r"change (roles|rolebindings) of rbac.authorization.k8s.io": "those of a router; the walkthroughs have none",
    r"change serviceaccounts of core": "that of a router; the walkthroughs have none",
    r"change ingresses of networking.k8s.io": "ingresses are switched off by default",
    BOTH + r"jobs of batch": "Jobs that read the metadata of models on claims",
    r"look at persistentvolume(claim)?s of core": "models on claims; the walkthroughs' are on the nodes",
    r"look at secrets of core": "tokens of models; the certificate's Secret has a rule of its own",
    r"change events of events.k8s.io": "events are written to the core group",
    BOTH + r"(httproutes|scaledobjects|triggerauthentications|leaderworkersets|podmonitors|podgroups) of [\w.-]+": (
        "kinds of other projects, none of them installed"
    ),
    BOTH + r"(backendtrafficpolicies|destinationrules|virtualservices) of [\w.-]+": (
        "kinds of other projects, none of them installed"
    ),
}
"""What the roles say beyond the walkthroughs' need, and why it is said. Whatever is not here must be needed."""


def dispensable(part: Part) -> bool:
    return any(re.fullmatch(pattern, str(part)) for pattern in NOT_NEEDED)


SPARE = [part for part in parts() if dispensable(part)]


async def played(*missing: Part, mounted: Path | None = None) -> list[str]:
    """Both walkthroughs with these parts taken away; what the manager was refused. Raises Failed when it was."""
    async with stage(mounted) as (world, manager, line):
        for role in manager_roles():
            taken = [part for part in missing if part.role == role["metadata"]["name"]]
            for part in taken:
                role["rules"] = [left for rule in role["rules"] for left in part.taken_from(rule)]
            if taken:
                await world.apply(role, manager="install")
        try:
            await walk(world, manager)
        except Failed:
            assert line.refused, "it failed, though nothing was refused"
            raise
        return line.refused


@pytest.mark.spec("IN-26")
def test_the_walkthroughs_pass_with_exactly_the_charts_roles(tmp_path: Path) -> None:
    assert run_virtual(played(mounted=tmp_path)) == []


def test_they_pass_with_exactly_the_roles_of_a_manager_that_keeps_its_own_certificate() -> None:
    assert run_virtual(played()) == []


@pytest.mark.spec("IN-26")
def test_they_pass_without_all_that_they_do_not_need() -> None:
    for pattern in NOT_NEEDED:
        assert any(re.fullmatch(pattern, str(part)) for part in SPARE), f"no rule says {pattern}"
    run_virtual(played(*SPARE))


@pytest.mark.spec("IN-26")
@pytest.mark.parametrize("part", [part for part in parts() if not dispensable(part)], ids=str)
def test_one_fails_without(part: Part) -> None:
    with pytest.raises(Failed):
        run_virtual(played(*SPARE, part))
