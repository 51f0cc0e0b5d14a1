"""Every label and annotation that OME writes, on the object and with the value that the specification says: a cluster
with a service for each feature, and one table."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from ome.admission.server import Webhooks
from ome.install import UrlWebhook, manifests
from ome.kube.resources import (
    CLUSTER_BASE_MODELS,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    FINE_TUNED_WEIGHTS,
    HPAS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    LEADER_WORKER_SETS,
    NODES,
    PDBS,
    POD_GROUPS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    SERVING_RUNTIMES,
    Resource,
)
from tests.support.virtual_time import run_virtual
from tests.support.world import World, embedded_world

from .objects import marks, model, runtime, service

pytestmark = pytest.mark.embedded_only("reviews come without a socket")

Json = dict[str, Any]
ROOMS = ("ome.models", "ome.runtimes", "ome.services", "ome.omenative")
IMAGE, NEXT = "docker.io/lmsysorg/sglang:v0.5.5.post3-cu129-amd64", "docker.io/lmsysorg/sglang:next"
ADAPTER = {
    "image": "agent:1",
    "memoryRequest": "1Gi",
    "memoryLimit": "1Gi",
    "cpuRequest": "1",
    "cpuLimit": "1",
}


def kind(resource: Resource, obj: Json) -> Json:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def definition(resource: Resource) -> Json:
    """A kind of another project, its content unchecked."""
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}},
    }
    names = {"kind": resource.kind, "plural": resource.plural}
    metadata = {
        "name": resource.group_resource,
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    }
    spec = {"group": resource.group, "names": names, "scope": "Namespaced", "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


@contextlib.asynccontextmanager
async def installed() -> AsyncIterator[World]:
    """A cluster with OME, its pod webhook and the kinds of LeaderWorkerSet and PodGroup; nobody plays the first."""
    served: list[Webhooks] = []

    async def send(url: str, authority: bytes, body: bytes, timeout: float) -> tuple[int, bytes]:
        return await served[0].respond(urlsplit(url).path, body)

    async with embedded_world(send=send) as world:
        await world.install()
        optional = (LEADER_WORKER_SETS, POD_GROUPS)
        await world.apply(*(definition(resource) for resource in optional))
        for resource in optional:
            await world.until(lambda resource=resource: world.client.serves(resource))  # type: ignore[misc]
        adapter = {"data": {"fineTunedAdapter": json.dumps(ADAPTER)}}
        await world.merge(CONFIG_MAPS, "inferenceservice-config", "ome", adapter)
        await world.make_namespace("prod")
        world.start_nodes(2, 16)
        world.start_workloads()
        environment = world.environment(accelerators=("nvidia.com/gpu",), runtime_revision_retention=1)
        environment = dataclasses.replace(environment, served=frozenset(r.group_resource for r in optional))
        served.append(Webhooks(environment))
        world.start_manager(ROOMS, environment)
        await world.install(webhook=UrlWebhook("https://127.0.0.1:9443", "Q0E="))
        yield world


def sglang(fraction: str = "0.9") -> Json:
    """The runtime without what slows, and with a single GPU."""
    body = runtime(fraction)
    runner = body["spec"]["engineConfig"]["runner"]
    for probe in ("readinessProbe", "startupProbe"):
        del runner[probe]
    runner["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return kind(SERVING_RUNTIMES, body)


def isvc(name: str, **parts: Any) -> Json:
    return kind(INFERENCE_SERVICES, service(name, **parts))


ONE = {"minReplicas": 1, "maxReplicas": 1}
RUNNER = {"name": "ome-container", "image": IMAGE, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
GANG = {"leader": {"runner": RUNNER}, "worker": {"size": 1, "runner": RUNNER}}
ROUTER = {"runner": {"name": "router", "image": "router:1", "ports": [{"containerPort": 8000, "name": "http"}]}}
RAW = isvc(
    "raw",
    engine=ONE,
    router=ROUTER,
    labels={"team": "blue"},
    annotations={
        "ome.io/dedicated-ai-cluster": "dac",
        "runtime.ome.io/observability-profile": "prometheus",
        "runtime.ome.io/observability-port": "8080",
    },
)
KUEUE = isvc("kueue", engine=ONE, annotations={"ome.io/dedicated-ai-cluster": "dac", "kueue-enabled": "true"})
VOLCANO = isvc("volcano", engine=ONE, annotations={"ome.io/volcano-queue": "queue"})
TUNED = isvc("tuned", engine=ONE, model={"name": "llama", "fineTunedWeights": ["lora-1"]})
SCRAPED = isvc("scraped", engine={**ONE, "annotations": {"ome.io/enable-prometheus-scraping": "true"}})
NATIVE = isvc(
    "native",
    deploymentMode="OMENative",
    engine={**ONE, **GANG, "topologyKey": "kubernetes.io/hostname"},
    rollout={"pairingProtocol": "wire-1"},
    labels={"kueue.x-k8s.io/queue-name": "users"},
    annotations={"note": "n"},
)
MANY = isvc("many", engine={**ONE, **GANG, "annotations": {"ome.io/deploymentMode": "MultiNode"}})
PINNED = isvc(
    "pinned",
    engine=ONE,
    runtime_ref={"name": "sglang", "kind": "ServingRuntime", "autoSync": False},
)


def swapped(image: str) -> Json:
    return isvc(
        "swapped",
        deploymentMode="OMENative",
        engine={
            **ONE,
            "runner": {"name": "ome-container", "image": image},
            "lifecycle": {"updateStrategy": {"type": "InPlaceIfPossible"}},
        },
    )


WEIGHT = kind(
    FINE_TUNED_WEIGHTS,
    {
        "metadata": {"name": "lora-1"},
        "spec": {
            "baseModelRef": {"name": "llama"},
            "modelType": "llama",
            "hyperParameters": {"strategy": "lora"},
            "configuration": {"merged_weights": True},
            "storage": {"storageUri": "oci://n/a/b/c/o/d"},
        },
    },
)


async def begin(world: World) -> None:
    """The model, its weight, the runtime, and every service."""
    llama = model()
    llama["metadata"]["annotations"] = {"models.ome.io/category": "LARGE"}
    await world.apply(kind(CLUSTER_BASE_MODELS, llama), sglang())
    nodes = [node["metadata"]["name"] for node in await world.list(NODES)]
    for node in nodes:
        ready = {"metadata": {"labels": {"models.ome.io/clusterbasemodel.llama": "Ready"}}}
        await world.merge(NODES, node, "", ready)
    await world.apply(kind(CONFIG_MAPS, marks(node=nodes[0])), WEIGHT)

    async def known() -> bool:
        return "modelFormat" in (await world.get(CLUSTER_BASE_MODELS, "llama"))["spec"]

    await world.until(known)
    await world.apply(RAW, KUEUE, VOLCANO, TUNED, SCRAPED, NATIVE, MANY, PINNED, swapped(IMAGE))

    async def all_ready() -> None:
        for obj in await world.list(INFERENCE_SERVICES, "prod"):
            conditions = {c["type"]: c["status"] for c in (obj.get("status") or {}).get("conditions", [])}
            assert conditions["Ready"] == ("True" if obj["metadata"]["name"] != "many" else "Unknown")

    await world.eventually(all_ready)
    await world.until(lambda: world.find(LEADER_WORKER_SETS, "lws-many-engine", "prod"))


async def second_revision(world: World) -> Json:
    """The pinned service follows an edit of its runtime; its first revision waits for its end."""
    (first,) = await world.list(CONTROLLER_REVISIONS, "ome")
    await world.apply(sglang("0.85"))
    await world.annotate(INFERENCE_SERVICES, "pinned", "prod", **{"ome.io/runtime-sync": "now"})

    async def marked() -> Json:
        stored = await world.get(CONTROLLER_REVISIONS, first["metadata"]["name"], "ome")
        assert "ome.io/gc-eligible-since" in stored["metadata"]["annotations"]
        return stored

    found: Json = await world.eventually(marked)
    return found


async def mid_transition(world: World) -> Json:
    """A pod while its image is changed in place. That is over in no time, so every version of the pod is looked at."""
    before = await world.get(PODS, "swapped-engine-0-default-0", "prod")
    await world.apply(swapped(NEXT))
    async with asyncio.timeout(60):
        async for event in world.client.watch(
            PODS,
            "prod",
            resource_version=before["metadata"]["resourceVersion"],
            field_selector="metadata.name=swapped-engine-0-default-0",
        ):
            pod: Json = msgspec.json.decode(event.object)
            if "internal.ome.io/in-place-image-transition" in pod["metadata"]["annotations"]:
                return pod
    raise AssertionError("the watch ended")


async def observed(world: World) -> dict[str, Json]:
    """What is written on every object, by a name for the object."""
    found: dict[str, Json] = {}
    for resource in SHOWN:
        for obj in await world.list(resource):
            meta = obj["metadata"]
            name = str(meta["name"])
            if resource is PODS and (hash_ := (meta.get("labels") or {}).get("pod-template-hash")):
                name = name.partition(f"-{hash_}")[0]
            found[f"{resource.kind} {name}"] = meta
    (runtime_revision,) = await world.list(CONTROLLER_REVISIONS, "ome")
    found["revision of the runtime"] = runtime_revision["metadata"]
    (native,) = await world.list(CONTROLLER_REVISIONS, "prod", "ome.io/inferenceservice=native")
    found["revision of native"] = native["metadata"]
    digest = native["metadata"]["name"].rpartition("-")[2]
    found["revision Service of native"] = found.pop(f"Service native-engine-rev-{digest}")
    templates = (await world.get(LEADER_WORKER_SETS, "lws-many-engine", "prod"))["spec"]["leaderWorkerTemplate"]
    found["leader of many"] = templates["leaderTemplate"]["metadata"]
    deployments = [entry for entry in manifests(workload=True) if entry["kind"] == "Deployment"]
    found["manager"] = deployments[0]["spec"]["template"]["metadata"]
    return found


SHOWN = (PODS, DEPLOYMENTS, SERVICES, HPAS, PDBS, INFERENCE_REPLICAS, POD_GROUPS, LEADER_WORKER_SETS)
GENERATED = (*SHOWN, CONTROLLER_REVISIONS, CONFIG_MAPS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)
LEADER, WORKER = "Pod native-engine-0-leader-0", "Pod native-engine-0-worker-0"
HASH = "{hash}"
"""Stands for eight characters of a hash."""
NOW = "{time}"
"""Stands for a time of RFC 3339."""
ANNOTATIONS: dict[str, dict[str, str]] = {
    "ome.io/controller-write": {"InferenceReplica native-engine": "true"},
    "ome.io/parent-generation": {"InferenceReplica native-engine": "1"},
    "ome.io/revision-excluded-annotation-keys": {"InferenceReplica native-engine": "note"},
    "ome.io/enable-metric-aggregation": {"Pod raw-engine": "false", LEADER: "false"},
    "ome.io/enable-prometheus-scraping": {"Pod raw-engine": "false", WORKER: "false", "Pod scraped-engine": "true"},
    "ome.io/inject-fine-tuned-adapter": {"Pod tuned-engine": "lora-1"},
    "ome.io/fine-tuned-weight-ft-strategy": {"Pod tuned-engine": "lora"},
    "ome.io/fine-tuned-serving-with-merged-weights": {"Pod tuned-engine": "true"},
    "ome.io/base-model-name": {"Pod raw-engine": "llama", LEADER: "llama"},
    "ome.io/base-model-format": {"Pod raw-engine": "safetensors", LEADER: "safetensors"},
    "ome.io/base-model-format-version": {"Pod raw-engine": "1.0.0", LEADER: "1.0.0"},
    "ome.io/base-model-vendor": {"Pod raw-engine": "meta", LEADER: "meta"},
    "ome.io/serving-runtime": {"Pod raw-engine": "sglang", LEADER: "sglang"},
    "prometheus.io/scrape": {"Pod raw-engine": "true"},
    "prometheus.io/port": {"Pod raw-engine": "8080", "Pod scraped-engine": "9091"},
    "prometheus.io/path": {"Pod raw-engine": "/metrics", "Pod scraped-engine": "/metrics"},
    "internal.ome.io/in-place-image-transition": {
        "pod in transition": f'{{"targetImages":{{"ome-container":"{NEXT}"}}}}',
    },
    "ome.io/autoscaler-propagated-metadata-keys": {
        "HorizontalPodAutoscaler native-engine": (
            "base-model-name,base-model-size,base-model-type,base-model-vendor,component,fine-tuned-serving,"
            "kueue.x-k8s.io/queue-name,ome.io/inferenceservice,serving-runtime|note,ome.io/base-model-format,"
            "ome.io/base-model-format-version,ome.io/base-model-name,ome.io/base-model-vendor,ome.io/serving-runtime"
        )
    },
    "ome.io/created-by": {"revision of the runtime": "ome-controller"},
    "ome.io/gc-eligible-since": {"first revision": NOW},
    "ome.io/pairing-protocol": {"revision of native": "wire-1"},
    "ome.io/topology-key": {"PodGroup native-engine-0": "kubernetes.io/hostname"},
}
LABELS: dict[str, dict[str, str]] = {
    "ome.io/inferenceservice": {"Pod raw-engine": "raw", LEADER: "native", "revision of native": "native"},
    "component": {
        "Pod raw-engine": "engine",
        "Pod raw-router": "router",
        "Service raw": "external-service",
        LEADER: "engine",
        "revision of native": "engine",
    },
    "app": {"Pod raw-engine": "raw-engine", "leader of many": "many-engine"},
    "ray.io/node-type": {"leader of many": "head"},
    "serving-runtime": {"Deployment raw-engine": "sglang", "Pod raw-engine": "sglang", LEADER: "sglang"},
    "fine-tuned-serving": {"Pod tuned-engine": "true", "Pod raw-engine": "false", LEADER: "false"},
    "base-model-name": {"Pod raw-engine": "llama", LEADER: "llama"},
    "base-model-size": {"Pod raw-engine": "LARGE", LEADER: "LARGE"},
    "base-model-type": {"Pod raw-engine": "Serving", LEADER: "Serving"},
    "base-model-vendor": {"Pod raw-engine": "meta", LEADER: "meta"},
    "fine-tuned-weight-ft-strategy": {"Pod tuned-engine": "lora"},
    "fine-tuned-serving-with-merged-weights": {"Pod tuned-engine": "true"},
    "volcano.sh/queue-name": {"Pod raw-engine": "dac", "Pod volcano-engine": "queue"},
    "kueue.x-k8s.io/priority-class": {"Pod kueue-engine": "kueue-scheduling-high-priority"},
    "kueue.x-k8s.io/queue-name": {"Pod kueue-engine": "dac", LEADER: "users", WORKER: "users"},
    "ome.io/managed-by": {LEADER: "OMENative", "revision of native": "OMENative"},
    "ome.io/instance-index": {LEADER: "0", WORKER: "0"},
    "ome.io/instance-incarnation": {LEADER: "1", WORKER: "1"},
    "ome.io/runner": {LEADER: "leader", WORKER: "worker", "pod in transition": "default"},
    "ome.io/pod-ordinal": {LEADER: "0", WORKER: "0"},
    "ome.io/revision-hash": {LEADER: HASH, "revision of the runtime": HASH},
    "ome.io/pairing-protocol": {LEADER: "wire-1", WORKER: "wire-1", "revision Service of native": "wire-1"},
    "scheduling.x-k8s.io/pod-group": {LEADER: "native-engine-0", WORKER: "native-engine-0"},
    "ome.io/runtime-of": {"revision of the runtime": "sglang"},
    "ome.io/runtime-of-kind": {"revision of the runtime": "ServingRuntime"},
    "ome.io/runtime-of-namespace": {"revision of the runtime": "prod"},
    "control-plane": {"manager": "ome-controller-manager"},
}
NOT_WRITTEN = {
    "of the model agent": (
        "models.ome.io/clusterbasemodel.{name}",
        "models.ome.io/{ns}.basemodel.{name}",
        "models.ome/basemodel-status",
        "models.ome.io/node-name",
        "models.ome.io/managed-by",
        "node",
    ),
    "of the Job that reads a model on a claim": (
        "models.ome/pvc-metadata-last-error",
        "models.ome/pvc-status",
        "models.ome/model-name",
        "models.ome/model-scope",
        "app.kubernetes.io/component",
        "models.ome/metadata-source-namespace",
    ),
    "of the BenchmarkJob controller": ("benchmark",),
    "of AutoscalerPolicies": ("ome.io/last-rendered-autoscaler",),
    "of a standalone InferenceReplica, which is composed anew each time": ("ome.io/composed-fields",),
}
"""Keys of parts that OME does not have."""


def is_as_said(value: str | None, wanted: str) -> bool:
    patterns = {HASH: r"[0-9a-f]{8}", NOW: r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"}
    return value is not None and re.fullmatch(patterns.get(wanted, re.escape(wanted)), value) is not None


async def unnamed(world: World) -> list[str]:
    """Objects made for a service that do not say for which, or for which component."""
    listed = [obj["metadata"] for resource in GENERATED for obj in await world.list(resource, "prod")]
    generated = [meta for meta in listed if meta.get("ownerReferences")]
    assert len(generated) > 50
    found = []
    for meta in generated:
        name, labels = meta["name"].removeprefix("lws-").removeprefix("modelconfig-"), meta.get("labels") or {}
        # The ConfigMap of a service's model belongs to no component.
        components = {None} if meta["name"].startswith("modelconfig-") else {"engine", "router", "external-service"}
        if name.partition("-")[0] != labels.get("ome.io/inferenceservice") or labels.get("component") not in components:
            found.append(meta["name"])
    return found


def test_every_key_is_where_it_should_be_with_its_value() -> None:
    async def main() -> None:
        async with installed() as world:
            await begin(world)
            assert await unnamed(world) == []
            found = await observed(world)
            found["first revision"] = (await second_revision(world))["metadata"]
            found["pod in transition"] = (await mid_transition(world))["metadata"]
        wrong = [
            f"{obj}: {field} {key}={(found[obj].get(field) or {}).get(key)}, not {wanted}"
            for field, table in (("annotations", ANNOTATIONS), ("labels", LABELS))
            for key, rows in table.items()
            for obj, wanted in rows.items()
            if not is_as_said((found[obj].get(field) or {}).get(key), wanted)
        ]
        assert wrong == []

    run_virtual(main(), limit=3600)


SAID = Path(__file__).parents[3] / "docs" / "spec" / "labels-and-annotations.md"
OURS = {"ctl", "adm", "pod", "agent", "job", "chart"}


def said() -> set[str]:
    """The keys of sections 1 and 2 whose writer is a part of OME."""
    text = SAID.read_text()
    sections = text[text.index("## 1.") : text.index("## 3.")]
    keys: set[str] = set()
    writer = None
    for line in sections.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            writer = None
        elif "Key" in cells:
            writer = cells.index("Writer") if "Writer" in cells else None
        elif writer is not None and OURS & set(re.split(r"[ /,]+", cells[writer])):
            named = re.finditer(r"(= )?`([^`]+)`", re.sub(r"\([^)]*\)", "", cells[0]))
            keys.update(match[2] for match in named if not match[1])
    together = r"prometheus.io/scrape\|port\|path"
    assert together in keys
    return keys - {together} | {"prometheus.io/scrape", "prometheus.io/port", "prometheus.io/path"}


def test_the_table_knows_every_key_that_the_specification_says_ome_writes() -> None:
    missing = {key for keys in NOT_WRITTEN.values() for key in keys}
    assert said() - {*ANNOTATIONS, *LABELS} == missing
