"""The life of an object: create, read, replace, patch, delete, and what each refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.apiserver.api import (
    APPLY,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE,
    PODS,
    Api,
    config_map,
    pod,
    with_api,
)

pytestmark = pytest.mark.embedded_only("what is tested is the embedded server itself")


@with_api()
async def test_a_created_object_is_read_back_with_uid_version_and_time(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, config_map("a", data={"k": "v"}))
    read = await api.get(f"{CONFIG_MAPS}/a")
    assert created.status == 201
    assert read.body == created.body
    assert read["metadata.namespace"] == "default"
    assert read["metadata.uid"]
    assert read["metadata.creationTimestamp"] == "2026-01-01T00:00:00Z"


@with_api()
async def test_the_same_seed_gives_the_same_uids(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, config_map("a"))
    assert created["metadata.uid"] == (await _uid_of_another_server())


async def _uid_of_another_server() -> str:
    from ome.kube.clock import LoopClock
    from ome.local.apiserver.http import User
    from ome.local.apiserver.server import ApiServer
    from tests.component.apiserver.api import ADMIN

    server = ApiServer(tokens={ADMIN: User("admin", groups=("system:masters",))}, clock=LoopClock(), seed=7)
    await server.start()
    created = await Api(server).post(CONFIG_MAPS, config_map("a"))
    await server.stop()
    uid: str = created["metadata.uid"]
    return uid


@with_api()
async def test_a_second_create_conflicts(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    again = await api.post(CONFIG_MAPS, config_map("a"))
    assert (again.status, again["reason"], again["message"]) == (409, "AlreadyExists", 'configmaps "a" already exists')


@with_api()
async def test_generate_name_adds_five_letters(api: Api) -> None:
    body = {"metadata": {"generateName": "x-"}}
    first, second = await api.post(CONFIG_MAPS, body), await api.post(CONFIG_MAPS, body)
    names = {first["metadata.name"], second["metadata.name"]}
    assert len(names) == 2
    assert all(len(name) == 7 and name.startswith("x-") for name in names)


@with_api()
async def test_a_replace_with_an_old_version_conflicts_and_changes_nothing(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, config_map("a"))
    old = {"resourceVersion": created["metadata.resourceVersion"]}
    assert (await api.put(f"{CONFIG_MAPS}/a", config_map("a", metadata=old, data={"k": "1"}))).status == 200
    late = await api.put(f"{CONFIG_MAPS}/a", config_map("a", metadata=old, data={"k": "2"}))
    assert (late.status, late["reason"]) == (409, "Conflict")
    assert (await api.get(f"{CONFIG_MAPS}/a"))["data"] == {"k": "1"}


@with_api()
async def test_a_write_that_changes_nothing_keeps_the_version(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, config_map("a", data={"k": "v"}))
    patched = await api.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
    assert patched["metadata.resourceVersion"] == created["metadata.resourceVersion"]


@with_api()
async def test_the_generation_counts_what_is_desired(api: Api) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    assert (await api.post(path, body))["metadata.generation"] == 1
    assert (await api.patch(f"{path}/d", {"metadata": {"labels": {"x": "y"}}}))["metadata.generation"] == 1
    assert (await api.patch(f"{path}/d/status", {"status": {"replicas": 1}}))["metadata.generation"] == 1
    assert (await api.patch(f"{path}/d", {"spec": {"replicas": 2}}))["metadata.generation"] == 2
    scaled = await api.patch(f"{path}/d/scale", {"spec": {"replicas": 5}})
    assert scaled["spec.replicas"] == 5
    assert (await api.get(f"{path}/d"))["metadata.generation"] == 3


@with_api()
async def test_a_dry_run_stores_nothing(api: Api) -> None:
    answer = await api.post(f"{CONFIG_MAPS}?dryRun=All", config_map("a"))
    assert answer.status == 201
    assert answer["metadata.resourceVersion"] is None
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 404


@with_api()
async def test_what_is_nested_too_deeply_is_refused_and_nothing_breaks(api: Api) -> None:
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"}, "revision": 1}
    assert (await api.post(path, {**revision, "data": {}})).status == 201
    for depth in (300, 600, 900):
        data: Any = 1
        for _ in range(depth):
            data = {"a": data}
        answers = [
            await api.post(path, {**revision, "metadata": {"name": "b"}, "data": data}),
            await api.patch(f"{path}/a", {"data": data}),
            await api.patch(f"{path}/c?fieldManager=m", {**revision, "metadata": {"name": "c"}, "data": data}, APPLY),
        ]
        assert [answer.status for answer in answers] == [400, 400, 400]
        assert {answer["message"] for answer in answers} == {"exceeded max depth"}
    assert (await api.get(f"{path}/a"))["data"] == {}
    data = 1
    for _ in range(200):
        data = {"a": data}
    assert (await api.post(path, {**revision, "metadata": {"name": "d"}, "data": data})).status == 201


@with_api()
async def test_unknown_fields_warn_or_are_refused_as_asked(api: Api) -> None:
    odd = config_map("a", nothing=1)
    warned = await api.post(f"{CONFIG_MAPS}?dryRun=All", odd)
    assert warned.warnings == ('unknown field "nothing"',)
    ignored = await api.post(f"{CONFIG_MAPS}?dryRun=All&fieldValidation=Ignore", odd)
    assert (ignored.status, ignored.warnings) == (201, ())
    refused = await api.post(f"{CONFIG_MAPS}?fieldValidation=Strict", odd)
    assert refused.status == 400
    assert 'strict decoding error: unknown field "nothing"' in refused["message"]


@with_api()
async def test_server_side_apply_creates_owns_and_conflicts(api: Api) -> None:
    path = f"{CONFIG_MAPS}/a"
    mine = await api.patch(f"{path}?fieldManager=one", config_map("a", data={"k": "1"}), APPLY)
    assert mine.status == 201
    clash = await api.patch(f"{path}?fieldManager=two", config_map("a", data={"k": "2"}), APPLY)
    assert clash["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    forced = await api.patch(f"{path}?fieldManager=two&force=true", config_map("a", data={"k": "2"}), APPLY)
    assert forced["data"] == {"k": "2"}
    given_up = await api.patch(f"{path}?fieldManager=two", config_map("a"), APPLY)
    assert given_up["data"] is None
    assert given_up["metadata.name"] == "a"


@pytest.mark.parametrize(
    ("sentence", "type", "body", "data"),
    [
        ("a merge patch removes with null", MERGE, {"data": {"k": None, "n": "1"}}, {"n": "1"}),
        (
            "a JSON patch adds at a path",
            JSON_PATCH,
            [{"op": "add", "path": "/data/n", "value": "1"}],
            {"k": "v", "n": "1"},
        ),
    ],
)
def test_patches(sentence: str, type: str, body: object, data: dict[str, str]) -> None:
    @with_api()
    async def run(api: Api) -> None:
        await api.post(CONFIG_MAPS, config_map("a", data={"k": "v"}))
        assert (await api.patch(f"{CONFIG_MAPS}/a", body, type))["data"] == data

    run()


@with_api()
async def test_finalizers_hold_an_object_until_the_last_is_gone(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a", metadata={"finalizers": ["example.com/x"]}))
    marked = await api.delete(f"{CONFIG_MAPS}/a")
    assert marked["metadata.deletionTimestamp"]
    refused = await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}})
    assert refused.status == 422
    assert (await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})).status == 200
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 404


@with_api()
async def test_a_pod_on_a_node_goes_gracefully_and_a_free_one_at_once(api: Api) -> None:
    await api.post(PODS, pod("free"))
    assert (await api.delete(f"{PODS}/free"))["metadata.deletionGracePeriodSeconds"] == 0
    assert (await api.get(f"{PODS}/free")).status == 404
    await api.post(PODS, pod("bound", spec={"nodeName": "n"}))
    marked = await api.delete(f"{PODS}/bound")
    assert marked["metadata.deletionGracePeriodSeconds"] == 30
    assert marked["metadata.deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert (await api.delete(f"{PODS}/bound?gracePeriodSeconds=60"))["metadata.deletionGracePeriodSeconds"] == 30
    assert (await api.delete(f"{PODS}/bound?gracePeriodSeconds=0"))["metadata.deletionGracePeriodSeconds"] == 0
    assert (await api.get(f"{PODS}/bound")).status == 404


@with_api()
async def test_preconditions_of_a_deletion_hold(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    wrong = await api.delete(f"{CONFIG_MAPS}/a", {"kind": "DeleteOptions", "preconditions": {"uid": "other"}})
    assert wrong.status == 409
    assert "the UID in the precondition (other) does not match the UID in record" in wrong["message"]
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 200


@with_api()
async def test_binding_a_pod_puts_it_on_a_node_once(api: Api) -> None:
    await api.post(PODS, pod("p"))
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await api.post(f"{PODS}/p/binding", body)).status == 201
    bound = await api.get(f"{PODS}/p")
    assert bound["spec.nodeName"] == "n"
    assert bound["status.conditions.0.type"] == "PodScheduled"
    again = await api.post(f"{PODS}/p/binding", body)
    assert (again.status, again["message"]) == (
        409,
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"',
    )


@with_api()
async def test_an_eviction_respects_the_budget(api: Api) -> None:
    labels = {"labels": {"app": "x"}}
    await api.post(PODS, pod("p", metadata=labels, spec={"nodeName": "n"}))
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await api.patch(f"{PODS}/p/status", {"status": ready})
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    await api.post(
        budgets, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    )
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    await api.patch(f"{budgets}/b/status", {"status": status})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    refused = await api.post(f"{PODS}/p/eviction", eviction)
    assert refused.status == 429
    assert refused["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    await api.patch(f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1}})
    assert (await api.post(f"{PODS}/p/eviction", eviction)).status == 201
    assert (await api.get(f"{budgets}/b"))["status.disruptionsAllowed"] == 0
    assert (await api.get(f"{PODS}/p"))["metadata.deletionTimestamp"]


@with_api()
async def test_a_service_gets_an_address_and_keeps_it(api: Api) -> None:
    path = "/api/v1/namespaces/default/services"
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    created = await api.post(path, body)
    address = created["spec.clusterIP"]
    assert address.startswith("10.")
    ported = await api.patch(f"{path}/s", {"spec": {"type": "NodePort"}})
    assert ported["spec.clusterIP"] == address
    assert 30000 <= ported["spec.ports.0.nodePort"] <= 32767
    other = {**body, "metadata": {"name": "t"}, "spec": {"ports": [{"port": 80}], "clusterIP": address}}
    taken = await api.post(path, other)
    assert (taken.status, "provided IP is already allocated" in taken["message"]) == (422, True)
    await api.delete(f"{path}/s")
    assert (await api.post(path, other))["spec.clusterIP"] == address
