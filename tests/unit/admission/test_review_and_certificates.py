"""Reviews on the wire, and certificates."""

from __future__ import annotations

import base64
import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from ome.admission.certificates import (
    Bundle,
    MountedCertificate,
    load_bundle,
    make_bundle,
    server_context,
    serving_names,
)
from ome.admission.review import allow, decode, deny, encode

NOW = datetime(2026, 11, 1, tzinfo=UTC)
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u-1",
        "operation": "UPDATE",
        "namespace": "ns",
        "name": "n",
        "userInfo": {"username": "ann", "groups": ["g"]},
        "object": {"spec": {"a": 1}},
        "oldObject": {"spec": {"a": 2}},
    },
}


@pytest.mark.spec("RR-41")
def test_a_denial_is_forbidden_with_its_reason() -> None:
    request = decode(json.dumps(REVIEW).encode())
    answer = json.loads(encode(request, deny("because")))
    assert answer == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": "u-1",
            "allowed": False,
            "status": {"code": 403, "reason": "Forbidden", "message": "because"},
        },
    }


def test_a_patch_is_base64_json() -> None:
    request = decode(json.dumps(REVIEW).encode())
    patch = [{"op": "add", "path": "/x", "value": 1}]
    response = json.loads(encode(request, allow(warnings=["mind"], patch=patch)))["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == patch
    assert response["warnings"] == ["mind"]


def test_what_is_asked() -> None:
    request = decode(json.dumps(REVIEW).encode())
    assert (request.operation, request.namespace, request.username) == ("UPDATE", "ns", "ann")
    assert request.object == {"spec": {"a": 1}}
    assert request.old_object == {"spec": {"a": 2}}


@pytest.mark.parametrize("body", [b"", b"{}", b'{"request":{}}', b"[]"])
def test_no_review(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(body)


def test_a_bundle_answers_for_service_and_loopback_and_fits_into_a_secret() -> None:
    bundle = make_bundle(serving_names("ome"), NOW)
    assert {"ome-webhook-server-service.ome.svc", "127.0.0.1", "localhost"} <= bundle.names()
    assert bundle.expires() > NOW + timedelta(days=300)
    assert Bundle.of_secret({"data": bundle.secret_data()}) == bundle


def test_a_renewal_keeps_the_authority_while_it_lives() -> None:
    first = make_bundle(serving_names("ome"), NOW)
    renewed = make_bundle(serving_names("ome"), NOW + timedelta(days=330), first)
    assert renewed.authority == first.authority
    assert renewed.certificate != first.certificate
    late = make_bundle(serving_names("ome"), NOW + timedelta(days=3600), first)
    assert late.authority != first.authority


@pytest.mark.parametrize(
    "data", [None, {}, {"tls.crt": "!"}, {"tls.crt": "", "tls.key": "", "ca.crt": "", "ca.key": ""}]
)
def test_a_secret_that_holds_no_certificate(data: dict[str, str] | None) -> None:
    assert Bundle.of_secret({"data": data}) is None


def test_a_bundle_serves() -> None:
    bundle = make_bundle(("localhost",), datetime.now(UTC))
    context = server_context()
    load_bundle(context, bundle.certificate, bundle.key)
    handshake(context, bundle.authority)


async def reload(keeper: MountedCertificate) -> None:
    await keeper.ensure()


@pytest.mark.spec("IN-6")
def test_a_mounted_certificate_is_read_again_when_it_changes(tmp_path: Path) -> None:
    import asyncio

    context = server_context()
    keeper = MountedCertificate(tmp_path, context)
    assert not MountedCertificate.present(tmp_path)
    for _ in range(2):
        bundle = make_bundle(("localhost",), datetime.now(UTC))
        (tmp_path / "tls.crt").write_bytes(bundle.certificate)
        (tmp_path / "tls.key").write_bytes(bundle.key)
        assert MountedCertificate.present(tmp_path)
        asyncio.run(reload(keeper))
        handshake(context, bundle.authority)


def handshake(server: ssl.SSLContext, authority: bytes) -> None:
    """A TLS handshake in memory, the client trusting this authority only."""
    trusting = ssl.create_default_context(cadata=authority.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = trusting.wrap_bio(to_client, to_server, server_hostname="localhost")
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    pending = [client_side, server_side]
    for _ in range(10):
        for side in [*pending]:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            pending.remove(side)
        if not pending:
            return
    raise AssertionError("the handshake did not end")
