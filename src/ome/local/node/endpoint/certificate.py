"""The endpoint's TLS: whom it trusts, and the serving certificate that the cluster signs for it.

Clients must hold a certificate of the authority that the API server publishes (`client-ca-file` in the ConfigMap
`extension-apiserver-authentication`). The serving certificate is asked for as a kubelet asks for its own, by a
CertificateSigningRequest of the signer `kubernetes.io/kubelet-serving`, approved by ourselves where we may. Until it is
there the endpoint serves a self-signed one, which an API server takes that checks no kubelet's certificate.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import logging
import os
import ssl
import tempfile
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.errors import KubeError
from ome.kube.resources import CONFIG_MAPS, Resource

SIGNING_REQUESTS: Final = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
SIGNER: Final = "kubernetes.io/kubelet-serving"
AUTHENTICATION: Final = "extension-apiserver-authentication"
SUBJECT: Final = x509.Name(
    [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, "system:node:ome-nodes"),
    ]
)
SELF_SIGNED_DAYS: Final = 3650
LOOK_EVERY: Final = 0.5  # seconds between looks at a request that is not signed yet
RETRY: Final = (1.0, 60.0)  # seconds until the next try after a failure: at first, at most
RENEW_AT: Final = 2 / 3  # of a certificate's life

log = logging.getLogger("ome.local.node.endpoint")


class Refused(Exception):
    """The cluster does not sign, or does not say whom to trust; the text says why."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key as PEM text."""

    certificate: bytes
    key: bytes

    def renew_after(self, now: datetime) -> float:
        """Seconds until a new one should be asked for."""
        found = x509.load_pem_x509_certificate(self.certificate)
        life = (found.not_valid_after_utc - found.not_valid_before_utc).total_seconds()
        return max(60.0, life * RENEW_AT - (now - found.not_valid_before_utc).total_seconds())


def names(host: str) -> x509.SubjectAlternativeName:
    """The names under which the endpoint is dialled: `host` and loopback's address."""
    return x509.SubjectAlternativeName([x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])


def self_signed(host: str, now: datetime) -> Identity:
    """A certificate that only says where it is from. Pure but for randomness."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(SUBJECT)
        .issuer_name(SUBJECT)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=SELF_SIGNED_DAYS))
        .add_extension(names(host), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def signing_request(host: str) -> tuple[bytes, bytes]:
    """(request, key) as PEM text. Pure but for randomness."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(SUBJECT)
    request = builder.add_extension(names(host), critical=False).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM), _pem(key)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


class Certificates:
    """The endpoint's TLS context, kept up to date: new connections use what was loaded last."""

    def __init__(self, client: Client, clock: Clock, host: str) -> None:
        self._client = client
        self._clock = clock
        self._host = host
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.verify_mode = ssl.CERT_REQUIRED  # without an authority loaded nobody gets in
        _load(self.context, self_signed(host, clock.now()))

    async def keep(self) -> None:
        """Trust and be trusted, until cancelled. What the cluster refuses is logged once and tried again."""
        wait, said = RETRY[0], ""
        while True:
            try:
                await self._trust()
                identity = await self._signed()
            except (KubeError, Refused) as error:
                if str(error) != said:
                    said = str(error)
                    log.warning("kubectl logs, exec, attach and port-forward may not reach these nodes: %s", error)
                await asyncio.sleep(wait)
                wait = min(RETRY[1], wait * 2)
                continue
            wait, said = RETRY[0], ""
            _load(self.context, identity)
            await asyncio.sleep(identity.renew_after(self._clock.now()))

    async def _trust(self) -> None:
        found: dict[str, Any] | None = await self._client.find(CONFIG_MAPS, AUTHENTICATION, "kube-system")
        authority = str(((found or {}).get("data") or {}).get("client-ca-file") or "")
        if not authority:
            raise Refused("the API server publishes no authority of client certificates (--client-ca-file)")
        try:
            self.context.load_verify_locations(cadata=authority)
        except ssl.SSLError as error:
            raise Refused(f"the published authority of client certificates cannot be read: {error}") from error

    async def _signed(self) -> Identity:
        request, key = signing_request(self._host)
        name = f"ome-nodes-{uuid.uuid4().hex[:10]}"
        body = {
            "apiVersion": SIGNING_REQUESTS.api_version,
            "kind": SIGNING_REQUESTS.kind,
            "metadata": {"name": name},
            "spec": {
                "request": base64.b64encode(request).decode(),
                "signerName": SIGNER,
                "usages": ["digital signature", "server auth"],
            },
        }
        made = await self._client.create(SIGNING_REQUESTS, body)
        try:
            await self._approve(made)
            return Identity(await self._issued(name), key)
        finally:
            await self._client.delete(SIGNING_REQUESTS, name)

    async def _approve(self, made: dict[str, Any]) -> None:
        condition = {
            "type": "Approved",
            "status": "True",
            "reason": "OMENodes",
            "message": "the node stand-in asked for its own serving certificate",
        }
        approved = {**made, "status": {**(made.get("status") or {}), "conditions": [condition]}}
        await self._client.replace(SIGNING_REQUESTS, approved, subresource="approval")

    async def _issued(self, name: str) -> bytes:
        while True:
            found: dict[str, Any] = await self._client.get(SIGNING_REQUESTS, name)
            status = found.get("status") or {}
            if status.get("certificate"):
                return base64.b64decode(status["certificate"])
            for condition in status.get("conditions") or ():
                if condition.get("type") in ("Denied", "Failed"):
                    raise Refused(f"{SIGNER}: {condition.get('message') or condition['type']}")
            await asyncio.sleep(LOOK_EVERY)


def _load(context: ssl.SSLContext, identity: Identity) -> None:
    """`ssl` takes certificates from files alone: one in memory where there is such, so that none stays."""
    text = identity.certificate + identity.key
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile(prefix="ome-") as file:  # readable by its owner alone
            file.write(text)
            file.flush()
            context.load_cert_chain(file.name)
        return
    with os.fdopen(os.memfd_create("certificate"), "wb") as file:
        file.write(text)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
