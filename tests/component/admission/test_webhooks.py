"""The webhooks behind an API server: who is called, what a client sees, what a stale cache does not spoil."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ome.kube.errors import ApiError, Forbidden
from ome.kube.requests import PatchType
from ome.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    PODS,
    ROLLOUT_POLICIES,
    SERVING_RUNTIMES,
)
from tests.component.admission.conftest import Scene, Theatre
from tests.component.admission.stage import Stage, model, runtime, service, settle


def on_stage(test: Scene) -> Callable[[Theatre], None]:
    def run(theatre: Theatre) -> None:
        theatre.play(test)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def refused(attempt: Coroutine[Any, Any, Any]) -> str:
    """What the client is told; the attempt must be Forbidden."""
    with pytest.raises(Forbidden) as refusal:
        await attempt
    return refusal.value.message


VALIDATOR = 'admission webhook "inferenceservice.ome-webhook-server.validator" denied the request: '


@pytest.mark.spec("RR-41")
@on_stage
async def test_a_denial_reaches_the_client_as_forbidden(made: Stage) -> None:
    text = await refused(made.world.apply(service(model={"name": "gone"})))
    assert text == (
        VALIDATOR + 'referenced model "gone" not found in namespace "llama-demo": ensure a BaseModel exists in this '
        "namespace or a ClusterBaseModel exists cluster-wide with this name"
    )


@on_stage
async def test_what_was_applied_a_moment_ago_is_seen(made: Stage) -> None:
    """No time passes for a watch to deliver between these writes."""
    await made.world.apply(model(), runtime(), service("fresh"))
    stored = await made.world.get(INFERENCE_SERVICES, "fresh", "llama-demo")
    assert stored["spec"]["runtime"]["autoSync"] is True


@pytest.mark.spec("RR-25")
@on_stage
async def test_while_the_runtime_is_disabled_nothing_of_the_service_can_change(made: Stage) -> None:
    await made.world.apply(
        model(), runtime(), service(runtime={"name": "sglang", "kind": "ServingRuntime", "autoSync": False})
    )
    await made.world.merge(SERVING_RUNTIMES, "sglang", "llama-demo", {"spec": {"disabled": True}})
    await settle()
    text = await refused(
        made.world.annotate(INFERENCE_SERVICES, "chat", "llama-demo", **{"ome.io/runtime-sync": "token"})
    )
    assert text == (
        VALIDATOR + "runtime sglang does not support model llama: namespace-scoped runtime sglang is disabled"
    )
    await made.world.client.delete(SERVING_RUNTIMES, "sglang", "llama-demo")
    await settle()
    text = await refused(made.world.annotate(INFERENCE_SERVICES, "chat", "llama-demo", note="x"))
    assert text.endswith("ServingRuntime sglang not found in namespace llama-demo")
    await made.world.client.delete(INFERENCE_SERVICES, "chat", "llama-demo")


@on_stage
async def test_status_writes_call_no_webhook(made: Stage) -> None:
    await made.world.apply(model(), runtime(), service("reporting"))
    made.reviews.clear()
    await made.world.merge(
        INFERENCE_SERVICES, "reporting", "llama-demo", {"status": {"url": "http://x"}}, subresource="status"
    )
    assert made.reviews == []


@pytest.mark.spec("SR-8")
@on_stage
async def test_runtimes_are_checked_with_their_parents(made: Stage) -> None:
    orphan = runtime("child")
    orphan["metadata"]["annotations"] = {"ome.io/inherit-from": "base"}
    text = await refused(made.world.apply(orphan))
    assert text.endswith('denied the request: inherit-from parent "base" not found (chain so far: [child])')
    await made.world.apply(runtime("base"), orphan)


REPLICA = {
    "apiVersion": "ome.io/v1beta1",
    "kind": "InferenceReplica",
    "metadata": {
        "name": "chat-engine",
        "namespace": "prod",
        "annotations": {"ome.io/controller-write": "true"},
    },
    "spec": {
        "component": "engine",
        "replicas": 2,
        "parentRef": {"name": "chat"},
        "runners": [
            {"name": "default", "size": 1, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
        ],
    },
}


async def patched(client: Any, body: dict[str, Any], subresource: str = "") -> Any:
    return await client.patch(
        INFERENCE_REPLICAS, "chat-engine", "prod", body, type=PatchType.MERGE, subresource=subresource
    )


@pytest.mark.spec("ON-34", "LA-7")
@on_stage
async def test_who_may_write_a_projected_replica(made: Stage) -> None:
    await made.world.create(REPLICA)
    for key in ("ome.io/release-held-revision", "ome.io/reset-instances"):
        await patched(made.ann, {"metadata": {"annotations": {key: "all"}}})
        stored = await patched(made.ann, {"metadata": {"annotations": {key: None}}})
        assert key not in stored["metadata"]["annotations"]
    text = await refused(patched(made.ann, {"metadata": {"annotations": {"ome.io/controller-write": None}}}))
    assert "rejects a direct UPDATE without the ome.io/controller-write=true annotation" in text
    text = await refused(patched(made.ann, {"spec": {"replicas": 5}}))
    assert text.endswith(
        "InferenceReplica prod/chat-engine is projected by InferenceService prod/chat, whose controller alone writes "
        "its spec; edit the InferenceService instead"
    )
    await patched(made.manager, {"spec": {"replicas": 3}})
    await patched(made.world.client, {"spec": {"replicas": 4}}, "scale")
    assert (await made.world.get(INFERENCE_REPLICAS, "chat-engine", "prod"))["spec"]["replicas"] == 4


@pytest.mark.spec("AP-5")
@on_stage
async def test_the_scale_of_a_replica(made: Stage) -> None:
    await made.world.create(REPLICA)
    await patched(made.world.client, {"spec": {"replicas": 2}}, "scale")
    scale = await made.world.client.get(INFERENCE_REPLICAS, "chat-engine", "prod", into=dict, subresource="scale")
    assert scale["kind"] == "Scale"
    assert scale["spec"]["replicas"] == 2
    await patched(made.world.client, {"spec": {"replicas": 3}}, "scale")
    assert (await made.world.get(INFERENCE_REPLICAS, "chat-engine", "prod"))["spec"]["replicas"] == 3


def revision(name: str, namespace: str, annotations: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "annotations": annotations, "labels": {"a": "b"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": {"a": 1},
        "revision": 1,
    }


@pytest.mark.spec("RR-29", "IN-27")
@on_stage
async def test_only_omes_revisions_are_guarded(made: Stage) -> None:
    ours, theirs = {"ome.io/created-by": "ome-controller"}, {"note": "a StatefulSet's"}
    await made.world.apply(
        revision("cr-rt-00000000", "ome", ours), revision("web-1", "ome", theirs), revision("web-1", "prod", ours)
    )
    made.reviews.clear()
    change = {"revision": 7}
    for namespace in ("ome", "prod"):
        await made.world.merge(CONTROLLER_REVISIONS, "web-1", namespace, change)
    assert made.reviews == []
    text = await refused(made.world.merge(CONTROLLER_REVISIONS, "cr-rt-00000000", "ome", change))
    assert text.endswith(
        "denied the request: ControllerRevision ome/cr-rt-00000000 is owned by OME; .revision is immutable"
    )
    await made.world.merge(CONTROLLER_REVISIONS, "cr-rt-00000000", "ome", {"metadata": {"annotations": {"x": "y"}}})
    await made.world.client.delete(CONTROLLER_REVISIONS, "cr-rt-00000000", "ome")


@pytest.mark.spec("RR-44", "IN-27")
@on_stage
async def test_without_a_manager_the_revisions_and_pods_of_others_can_still_be_written(made: Stage) -> None:
    """What the controller of a StatefulSet writes when it rolls."""
    await made.world.apply(
        revision("cr-rt-11111111", "ome", {"ome.io/created-by": "ome-controller"}), revision("db-1", "prod", {})
    )
    made.reviews.clear()
    made.down = True
    try:
        await made.world.apply(revision("db-2", "prod", {}))
        for name, namespace in (("db-1", "prod"), ("db-2", "prod")):
            await made.world.merge(CONTROLLER_REVISIONS, name, namespace, {"revision": 7})
        await made.world.client.delete(CONTROLLER_REVISIONS, "db-1", "prod")
        await made.world.apply(pod("db-0"))
        await made.world.client.delete(PODS, "db-0", "prod")
        assert made.reviews == []
        with pytest.raises(ApiError) as refusal:
            await made.world.merge(CONTROLLER_REVISIONS, "cr-rt-11111111", "ome", {"revision": 7})
        assert "failed calling webhook" in refusal.value.message
    finally:
        made.down = False


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "prod", "labels": labels},
        "spec": {"containers": [{"name": "ome-container", "image": "x"}]},
    }


@pytest.mark.spec("LA-5", "LA-8")
@on_stage
async def test_pods_of_services_are_annotated_and_no_others_seen(made: Stage) -> None:
    made.reviews.clear()
    await made.world.apply(pod("plain"))
    assert made.reviews == []
    await made.world.apply(pod("serving", **{"ome.io/inferenceservice": "chat"}))
    stored = await made.world.get(PODS, "serving", "prod")
    assert stored["metadata"]["annotations"] == {
        "ome.io/enable-metric-aggregation": "false",
        "ome.io/enable-prometheus-scraping": "false",
    }


@on_stage
async def test_a_check_that_cannot_be_made_denies(made: Stage) -> None:
    """An object of a shape that no schema lets through, as a review might still bring it."""
    from ome.admission.server import Webhooks

    webhooks = Webhooks(made.world.environment())
    body = b'{"request":{"uid":"u","operation":"CREATE","namespace":"prod","object":{"metadata":{"name":1}}}}'
    status, answer = await webhooks.respond("/validate-ome-io-v1beta1-inferenceservice", body)
    assert status == 200
    assert b"the object cannot be read" in answer
    assert await webhooks.respond("/mutate-pods", b"nonsense") == (400, b"no AdmissionReview: " + _reason(b"nonsense"))


def _reason(body: bytes) -> bytes:
    from ome.admission.review import decode

    try:
        decode(body)
    except ValueError as error:
        return f"{error}\n".encode()
    raise AssertionError("decoded")


@on_stage
async def test_policies_are_checked_where_they_exist(made: Stage) -> None:
    policy = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "RolloutPolicy",
        "metadata": {"name": "p", "namespace": "llama-demo"},
        "spec": {"canary": {"steps": [{"capacity": 1, "traffic": 100}]}},
    }
    assert "must be a percentage" in await refused(made.world.client.apply(ROLLOUT_POLICIES, policy))


@pytest.mark.spec("MO-26")
@on_stage
async def test_a_bad_entry_of_the_configuration_and_the_pods(made: Stage) -> None:
    """What pods need of the ConfigMap denies them when it is broken; another entry's fault does not."""
    before = await made.world.get(CONFIG_MAPS, "inferenceservice-config", "ome")

    async def configured(**entries: str) -> None:
        await made.world.merge(CONFIG_MAPS, "inferenceservice-config", "ome", {"data": entries})

    try:
        await configured(deploy="{")
        await made.world.apply(pod("survivor", **{"ome.io/inferenceservice": "chat"}))
        await configured(deploy=before["data"]["deploy"], fineTunedAdapter="{")
        for service in ("chat", "without-adapters"):
            text = await refused(made.world.apply(pod("victim", **{"ome.io/inferenceservice": service})))
            assert "unable to unmarshal fineTunedAdapter json string:" in text
        await made.world.apply(pod("bystander"))
    finally:
        await made.world.merge(
            CONFIG_MAPS, "inferenceservice-config", "ome", {"data": {**before["data"], "fineTunedAdapter": None}}
        )
