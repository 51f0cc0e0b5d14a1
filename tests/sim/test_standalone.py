"""Replicas without a service: own runners, or rendered from a model and a runtime (`docs/spec/omenative.md` 2.1)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.play import play
from tests.sim.world import Json, World, projected

FORMAT = {
    "modelFormat": {"name": "safetensors", "version": "1.0.0"},
    "modelFramework": {"name": "transformers", "version": "4.51.0"},
    "modelArchitecture": "Qwen3ForCausalLM",
}


def solo(**spec: Any) -> Json:
    """A standalone engine called `solo-engine`."""
    body = projected("solo", image="sglang:v1", replicas=1)
    del body["spec"]["parentRef"]
    del body["spec"]["runners"]
    del body["metadata"]["ownerReferences"]
    del body["metadata"]["annotations"]
    body["metadata"]["labels"] = {}
    body["spec"].update(spec)
    return body


def model(**spec: Any) -> Json:
    storage = {"storageUri": "hf://Qwen/Qwen3-0.6B", "path": "/raid/models/qwen3"}
    known = {**FORMAT, "modelParameterSize": "596M", "storage": storage}
    return {"metadata": {"name": "qwen3"}, "spec": {**known, **spec}}


def runtime(image: str = "sglang:v1", **spec: Any) -> Json:
    runner = {"name": "ome-container", "image": image, "args": ["--model-path=$(MODEL_PATH)"]}
    formats = [{**FORMAT, "priority": 1, "autoSelect": True}]
    return {
        "metadata": {"name": "srt"},
        "spec": {"supportedModelFormats": formats, "engineConfig": {"runner": runner}, **spec},
    }


def reason(world: World) -> tuple[str, str]:
    found = next(c for c in world.status("solo")["conditions"] if c["type"] == "Ready")
    return str(found["reason"]), str(found["message"])


REFERENCES = {"modelRef": {"name": "qwen3"}, "runtimeRef": {"name": "srt"}}


@pytest.mark.spec("ON-1")
@pytest.mark.parametrize("named", [True, False], ids=["runtime named", "runtime selected"])
def test_a_standalone_replica_is_rendered_from_live_objects(named: bool) -> None:
    async def story(world: World) -> None:
        world.server.create("clusterbasemodels", model())
        world.server.create("clusterservingruntimes", runtime())
        world.server.create("inferencereplicas", solo(**(REFERENCES if named else {"modelRef": {"name": "qwen3"}})))
        await world.until(lambda: world.settled("solo"), limit=60)
        pod = world.server.get("pods", "prod", "solo-engine-engine-0-default-0")
        assert pod is not None
        assert pod["metadata"]["labels"]["ome.io/inferenceservice"] == "solo-engine"
        assert pod["spec"]["containers"][0]["image"] == "sglang:v1"
        assert "runners" not in world.replica("solo")["spec"], "rendered runners are never stored"
        services = [service["metadata"]["name"] for service in world.server.list("services")]
        assert services == ["solo-engine-engine-headless"]
        changed = runtime("sglang:v2")
        live = world.server.get("clusterservingruntimes", "", "srt")
        assert live is not None
        world.server.update(("clusterservingruntimes", "", "srt"), {**live, "spec": changed["spec"]})
        await world.run(5)
        await world.until(lambda: world.settled("solo"), limit=60)
        pod = world.server.get("pods", "prod", "solo-engine-engine-0-default-1")
        assert pod is not None
        assert pod["spec"]["containers"][0]["image"] == "sglang:v2"

    play(story)


@pytest.mark.parametrize(
    ("objects", "spec", "expected"),
    [
        ({}, {}, "TemplateSourceMissing"),
        ({}, REFERENCES, "ModelNotFound"),
        ({"clusterbasemodels": model(disabled=True)}, REFERENCES, "ModelDisabled"),
        ({"clusterbasemodels": model()}, REFERENCES, "RuntimeNotFound"),
        (
            {"clusterbasemodels": model(), "clusterservingruntimes": runtime(disabled=True)},
            REFERENCES,
            "RuntimeDisabled",
        ),
        ({"clusterbasemodels": model()}, {"modelRef": {"name": "qwen3"}}, "RuntimeSelectionFailed"),
        (
            {"clusterbasemodels": model(), "clusterservingruntimes": runtime(engineConfig=None)},
            REFERENCES,
            "RuntimePieceMissing",
        ),
        (
            {},
            {"runners": [{"name": "leader", "size": 1, "template": {}}, {"name": "worker", "size": 2, "template": {}}]},
            "RenderFailed",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unrenderable_replica_says_why_and_recovers(objects: dict[str, Json], spec: Json, expected: str) -> None:
    async def story(world: World) -> None:
        for collection, obj in objects.items():
            world.server.create(collection, obj)
        world.server.create("inferencereplicas", solo(**spec))
        await world.run(5)
        found, message = reason(world)
        assert found == expected, message
        (event,) = world.events(expected)
        assert (event["type"], event["message"]) == ("Warning", message)
        assert event["involvedObject"]["kind"] == "InferenceReplica"
        assert world.pods("solo-engine") == []
        await world.run(300)
        assert world.events(expected)[0]["count"] == 1
        template = {"spec": {"containers": [{"name": "ome-container", "image": "sglang:v1"}]}}
        runners = [{"name": "default", "size": 1, "template": template}]
        world.change("solo", runners=runners, modelRef=None, runtimeRef=None)
        await world.until(lambda: world.settled("solo"), limit=60)

    play(story)


def test_pods_stay_when_their_template_can_no_longer_be_rendered() -> None:
    async def story(world: World) -> None:
        world.server.create("clusterbasemodels", model())
        world.server.create("clusterservingruntimes", runtime())
        world.server.create("inferencereplicas", solo(**REFERENCES))
        await world.until(lambda: world.settled("solo"), limit=60)
        world.server.delete(("clusterservingruntimes", "", "srt"))
        await world.run(60)
        assert reason(world)[0] == "RuntimeNotFound"
        assert len(world.pods("solo-engine")) == 1
        assert world.status("solo")["servingReplicas"] == 1

    play(story)
