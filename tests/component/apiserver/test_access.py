"""Who one is and what one may: tokens, certificates, roles, impersonation, reviews."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from ome.local.apiserver.http import HttpRequest, User
from tests.component.apiserver.api import CONFIG_MAPS, Api, config_map, with_api

pytestmark = pytest.mark.embedded_only("what is tested is the embedded server itself")

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def _as_account(api: Api, name: str = "robot", **spec: object) -> Api:
    await api.post(ACCOUNTS, {"metadata": {"name": name}})
    answer = await api.post(f"{ACCOUNTS}/{name}/token", {"spec": spec})
    assert answer.status == 201, answer.body
    return replace(api, token=answer["status.token"])


async def _allow(api: Api, verbs: list[str], resources: list[str], subject: dict[str, str]) -> None:
    role = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}]}
    await api.post(f"{RBAC}/namespaces/default/roles", role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    binding = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]}
    assert (await api.post(f"{RBAC}/namespaces/default/rolebindings", binding)).status == 201


@with_api()
async def test_nobody_and_a_wrong_token(api: Api) -> None:
    nobody = await replace(api, token="").get(CONFIG_MAPS)
    assert (nobody.status, nobody["message"]) == (
        403,
        'configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" in the '
        'namespace "default"',
    )
    assert (await replace(api, token="wrong").get(CONFIG_MAPS)).status == 401
    assert (await replace(api, token="").get("/readyz")).status == 200


@with_api()
async def test_an_account_may_what_its_role_says_and_no_more(api: Api) -> None:
    robot = await _as_account(api)
    assert (await robot.get(CONFIG_MAPS)).status == 403
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    await _allow(api, ["get", "list"], ["configmaps"], subject)
    assert (await robot.get(CONFIG_MAPS)).status == 200
    assert (await robot.post(CONFIG_MAPS, config_map("a"))).status == 403
    assert (await robot.get("/api/v1/namespaces/kube-system/configmaps")).status == 403
    await api.delete(f"{RBAC}/namespaces/default/rolebindings/r")
    assert (await robot.get(CONFIG_MAPS)).status == 403


@with_api()
async def test_a_token_dies_with_its_account_and_its_time(api: Api) -> None:
    robot = await _as_account(api, expirationSeconds=600)
    review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    me = await robot.post(path, review)
    assert me["status.userInfo.username"] == "system:serviceaccount:default:robot"
    await asyncio.sleep(601)
    assert (await robot.post(path, review)).status == 401
    second = await _as_account(api)
    await api.delete(f"{ACCOUNTS}/robot")
    assert (await second.post(path, review)).status == 401


@with_api()
async def test_a_token_of_another_server_is_worth_nothing(api: Api) -> None:
    robot = await _as_account(api)
    head, claims, signature = robot.token.split(".")
    forged = replace(api, token=f"{head}.{claims}.{'A' * len(signature)}")
    assert (await forged.get(CONFIG_MAPS)).status == 401


@with_api()
async def test_nobody_grants_what_they_do_not_hold(api: Api) -> None:
    robot = await _as_account(api)
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    rules = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]
    await api.post(f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "maker"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maker"}
    await api.post(
        f"{RBAC}/namespaces/default/rolebindings",
        {"metadata": {"name": "maker"}, "roleRef": reference, "subjects": [subject]},
    )
    less = {"metadata": {"name": "less"}, "rules": [rules[1]]}
    assert (await robot.post(f"{RBAC}/namespaces/default/roles", less)).status == 201
    more = {"metadata": {"name": "more"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
    refused = await robot.post(f"{RBAC}/namespaces/default/roles", more)
    assert refused.status == 403
    assert "is attempting to grant RBAC permissions not currently held" in refused["message"]


@with_api()
async def test_impersonation_acts_as_somebody_else(api: Api) -> None:
    as_jane = {"impersonate_user": "jane", "impersonate_group": "devs"}
    assert (await api.get(CONFIG_MAPS, **as_jane)).status == 403
    await _allow(
        api, ["list"], ["configmaps"], {"kind": "Group", "name": "devs", "apiGroup": "rbac.authorization.k8s.io"}
    )
    assert (await api.get(CONFIG_MAPS, **as_jane)).status == 200
    robot = await _as_account(api)
    denied = await robot.get(CONFIG_MAPS, impersonate_user="admin")
    assert denied["message"].startswith('users "admin" is forbidden')


@with_api()
async def test_a_client_certificate_names_a_user(api: Api) -> None:
    request = HttpRequest("GET", CONFIG_MAPS, certificate=User("boss", groups=("system:masters",)))
    assert (await api.server.handle(request)).status == 200


@with_api()
async def test_an_aggregated_role_gathers_the_rules_of_others(api: Api) -> None:
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rules = [{"apiGroups": ["example.com"], "resources": ["boats"], "verbs": ["get"]}]
    await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "boats", "labels": label}, "rules": rules})
    for name in ("view", "edit", "admin"):
        assert rules[0] in (await api.get(f"{RBAC}/clusterroles/{name}"))["rules"]


@with_api()
async def test_may_i(api: Api) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "default"}}}
    assert (await api.post(path, asked))["status.allowed"] is True
    robot = await _as_account(api)
    assert (await robot.post(path, asked))["status.allowed"] is False


@with_api()
async def test_others_can_verify_a_token_with_the_published_key(api: Api) -> None:
    robot = await _as_account(api)
    head, claims, signature = robot.token.split(".")
    key = (await api.get("/openid/v1/jwks"))["keys.0"]
    assert (key["alg"], key["crv"]) == ("ES256", "P-256")
    x, y = (int.from_bytes(_decoded(key[name]), "big") for name in "xy")
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    raw = _decoded(signature)
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    public.verify(der, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
    said = json.loads(_decoded(claims))
    assert said["iss"] == (await api.get("/.well-known/openid-configuration"))["issuer"]
    assert said["sub"] == "system:serviceaccount:default:robot"


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
