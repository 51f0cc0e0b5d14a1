"""What the cluster does by itself: namespaces, owners, definitions, quotas, roles."""

from __future__ import annotations

import asyncio

import pytest

from tests.component.apiserver.api import (
    BOATS,
    CONFIG_MAPS,
    DEFINITIONS,
    PODS,
    TABLE,
    Api,
    boat,
    config_map,
    definition,
    pod,
    with_api,
)

pytestmark = pytest.mark.embedded_only("what is tested is the embedded server itself")


async def _gone(api: Api, path: str) -> bool:
    for _ in range(20):
        if (await api.get(path)).status == 404:
            return True
        await asyncio.sleep(0.1)
    return False


def _owned_by(owner: object, **more: object) -> dict[str, object]:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],  # type: ignore[index]
        "uid": owner["metadata"]["uid"],  # type: ignore[index]
        "blockOwnerDeletion": True,
    }
    return {"ownerReferences": [reference], **more}


@with_api()
async def test_dependents_follow_their_owner_in_the_background(api: Api) -> None:
    owner = await api.post(CONFIG_MAPS, config_map("owner"))
    child = await api.post(CONFIG_MAPS, config_map("child", metadata=_owned_by(owner.body)))
    await api.post(CONFIG_MAPS, config_map("grandchild", metadata=_owned_by(child.body)))
    assert (await api.delete(f"{CONFIG_MAPS}/owner"))["status"] == "Success"
    assert await _gone(api, f"{CONFIG_MAPS}/child")
    assert await _gone(api, f"{CONFIG_MAPS}/grandchild")


@with_api()
async def test_a_foreground_deletion_waits_for_what_blocks_it(api: Api) -> None:
    owner = await api.post(CONFIG_MAPS, config_map("owner"))
    held = _owned_by(owner.body, finalizers=["example.com/hold"])
    await api.post(CONFIG_MAPS, config_map("child", metadata=held))
    marked = await api.delete(f"{CONFIG_MAPS}/owner?propagationPolicy=Foreground")
    assert marked["metadata.finalizers"] == ["foregroundDeletion"]
    await asyncio.sleep(1)
    assert (await api.get(f"{CONFIG_MAPS}/child"))["metadata.deletionTimestamp"]
    assert (await api.get(f"{CONFIG_MAPS}/owner")).status == 200
    await api.patch(f"{CONFIG_MAPS}/child", {"metadata": {"finalizers": None}})
    assert await _gone(api, f"{CONFIG_MAPS}/owner")


@with_api()
async def test_orphans_stay_without_their_owner(api: Api) -> None:
    owner = await api.post(CONFIG_MAPS, config_map("owner"))
    await api.post(CONFIG_MAPS, config_map("child", metadata=_owned_by(owner.body)))
    await api.delete(f"{CONFIG_MAPS}/owner?propagationPolicy=Orphan")
    assert await _gone(api, f"{CONFIG_MAPS}/owner")
    assert (await api.get(f"{CONFIG_MAPS}/child"))["metadata.ownerReferences"] is None


@with_api()
async def test_an_object_of_an_owner_that_never_was_is_collected(api: Api) -> None:
    nobody = {"metadata": {"name": "nobody", "uid": "00000000-0000-4000-8000-000000000000"}}
    await api.post(CONFIG_MAPS, config_map("lost", metadata=_owned_by(nobody)))
    assert await _gone(api, f"{CONFIG_MAPS}/lost")


@with_api()
async def test_a_namespace_is_furnished_and_emptied(api: Api) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    assert (await api.get("/api/v1/namespaces/n/serviceaccounts/default")).status == 200
    assert (await api.get("/api/v1/namespaces/n/configmaps/kube-root-ca.crt")).status == 200
    await api.post("/api/v1/namespaces/n/configmaps", config_map("held", metadata={"finalizers": ["example.com/x"]}))
    await api.post("/api/v1/namespaces/n/pods", pod("p"))
    going = await api.delete("/api/v1/namespaces/n")
    assert going["status.phase"] == "Terminating"
    late = await api.post("/api/v1/namespaces/n/configmaps", config_map("late"))
    assert (late.status, late["details.causes.0.reason"]) == (403, "NamespaceTerminating")
    await asyncio.sleep(1)
    assert (await api.get("/api/v1/namespaces/n/pods/p")).status == 404
    conditions = {c["type"]: c for c in (await api.get("/api/v1/namespaces/n"))["status.conditions"]}
    assert "configmaps. has 1 resource instances" in conditions["NamespaceContentRemaining"]["message"]
    await api.patch("/api/v1/namespaces/n/configmaps/held", {"metadata": {"finalizers": None}})
    assert await _gone(api, "/api/v1/namespaces/n")


@with_api()
async def test_a_definition_serves_at_once_and_takes_its_objects_with_it(api: Api) -> None:
    assert (await api.get(BOATS)).status == 404
    assert (await api.post(DEFINITIONS, definition())).status == 201
    created = await api.post(BOATS, boat("b", size=3, odd=1))
    assert (created.status, created.warnings, created["spec"]) == (201, ('unknown field "spec.odd"',), {"size": 3})
    wrong = await api.post(BOATS, boat("c", size="big"))
    assert "spec.size in body must be of type integer" in wrong["message"]
    status = await api.patch(f"{BOATS}/b/status", {"spec": {"size": 9}, "status": {"phase": "Afloat"}})
    assert (status["spec.size"], status["status.phase"], status["metadata.generation"]) == (3, "Afloat", 1)
    assert "boats" in {r["name"] for r in (await api.get("/apis/example.com/v1"))["resources"]}
    await api.delete(f"{DEFINITIONS}/boats.example.com")
    assert await _gone(api, BOATS)
    assert await _gone(api, f"{DEFINITIONS}/boats.example.com")


@with_api()
async def test_definitions_may_not_share_names(api: Api) -> None:
    await api.post(DEFINITIONS, definition())
    second = definition(plural="ships")
    second["metadata"]["name"] = "ships.example.com"
    await api.post(DEFINITIONS, second)
    conditions = (await api.get(f"{DEFINITIONS}/ships.example.com"))["status.conditions"]
    assert [(c["type"], c["status"], c["reason"]) for c in conditions] == [
        ("NamesAccepted", "False", "ListKindConflict"),
        ("Established", "False", "NotAccepted"),
    ]
    await api.delete(f"{DEFINITIONS}/boats.example.com")
    await _gone(api, f"{DEFINITIONS}/boats.example.com")
    conditions = (await api.get(f"{DEFINITIONS}/ships.example.com"))["status.conditions"]
    assert {c["status"] for c in conditions} == {"True"}


@with_api()
async def test_two_versions_show_the_same_object(api: Api) -> None:
    body = definition()
    other = {**body["spec"]["versions"][0], "name": "v2", "storage": False}
    body["spec"]["versions"].append(other)
    await api.post(DEFINITIONS, body)
    await api.post(BOATS, boat("b", size=1))
    newer = BOATS.replace("v1", "v2")
    assert (await api.get(f"{newer}/b"))["apiVersion"] == "example.com/v2"
    assert (await api.get(newer))["items.0.apiVersion"] == "example.com/v2"
    patched = await api.patch(f"{newer}/b", {"spec": {"size": 2}})
    assert (patched["apiVersion"], patched["spec.size"]) == ("example.com/v2", 2)
    assert (await api.get(f"{BOATS}/b"))["spec.size"] == 2


@with_api()
async def test_moving_the_storage_version_keeps_objects_readable(api: Api) -> None:
    body = definition()
    body["spec"]["versions"].append({**body["spec"]["versions"][0], "name": "v2", "storage": False})
    created = await api.post(DEFINITIONS, body)
    await api.post(BOATS, boat("b", size=1))
    body["spec"]["versions"][0]["storage"], body["spec"]["versions"][1]["storage"] = False, True
    current = await api.get(f"{DEFINITIONS}/boats.example.com")
    body["metadata"]["resourceVersion"] = current["metadata.resourceVersion"]
    assert created.status == 201
    assert (await api.put(f"{DEFINITIONS}/boats.example.com", body)).status == 200
    for version in ("v1", "v2"):
        found = await api.get(BOATS.replace("v1", version) + "/b")
        assert (found["apiVersion"], found["spec.size"]) == (f"example.com/{version}", 1)


@with_api()
async def test_printer_columns_make_a_table(api: Api) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    await api.post(DEFINITIONS, definition(additionalPrinterColumns=columns))
    await api.post(BOATS, boat("b", size=3))
    await asyncio.sleep(90)
    table = await api.get(BOATS, accept=TABLE)
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Size", "Age"]
    assert table["rows.0.cells"] == ["b", 3, "90s"]


@with_api()
async def test_a_quota_counts_and_refuses(api: Api) -> None:
    quotas = "/api/v1/namespaces/default/resourcequotas"
    await api.post(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1", "requests.cpu": "1"}}})
    needs = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "600m"}}}]}
    bare = await api.post(PODS, pod("bare"))
    assert "failed quota: q: must specify requests.cpu for: c" in bare["message"]
    assert (await api.post(PODS, pod("a", spec=needs))).status == 201
    over = await api.post(PODS, pod("b", spec=needs))
    assert over["message"].endswith(
        "exceeded quota: q, requested: pods=1,requests.cpu=600m, used: pods=1,requests.cpu=600m, "
        "limited: pods=1,requests.cpu=1"
    )
    assert (await api.get(f"{quotas}/q"))["status.used"] == {"pods": "1", "requests.cpu": "600m"}
    await api.delete(f"{PODS}/a")
    assert (await api.get(f"{quotas}/q"))["status.used"] == {"pods": "0", "requests.cpu": "0"}


@with_api()
async def test_pods_get_account_token_tolerations_and_priority(api: Api) -> None:
    made = await api.post(PODS, pod("p"))
    assert made["spec.serviceAccountName"] == "default"
    assert made["spec.priority"] == 0
    assert {t["key"] for t in made["spec.tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    mount = made["spec.containers.0.volumeMounts.0"]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert made["spec.volumes.0.name"] == mount["name"]
    missing = await api.post(PODS, pod("q", spec={"serviceAccountName": "absent"}))
    assert (missing.status, missing["message"]) == (
        403,
        'pods "q" is forbidden: error looking up service account default/absent: serviceaccount "absent" not found',
    )


@with_api(event_ttl=3600.0)
async def test_an_event_lasts_an_hour_from_its_last_change(api: Api) -> None:
    path = "/api/v1/namespaces/default/events"
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    for name in ("old", "renewed"):
        await api.post(
            path, {"metadata": {"name": name}, "involvedObject": about, "reason": "Because", "type": "Normal"}
        )
    await asyncio.sleep(1800)
    await api.patch(f"{path}/renewed", {"count": 2})
    await asyncio.sleep(1801)
    assert (await api.get(f"{path}/old")).status == 404
    assert (await api.get(f"{path}/renewed")).status == 200
    await asyncio.sleep(1800)
    assert (await api.get(f"{path}/renewed")).status == 404
