"""The webhooks' TLS certificate: mounted from a directory, or made and kept in a Secret by the managers themselves.

Mounted (cert-manager): the files are read again when they change. Self-made: all replicas share the Secret
`ome-webhook-server-cert`; whoever comes first writes it, whoever sees it age renews it, and each makes sure that both
webhook configurations trust its CA. New connections use a new certificate at once, without a restart.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import logging
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ome.kube.client import Client
from ome.kube.clock import Clock
from ome.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from ome.kube.requests import PatchType
from ome.kube.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Resource

log = logging.getLogger("ome.admission")

SECRET_NAME: Final = "ome-webhook-server-cert"
SERVICE_NAME: Final = "ome-webhook-server-service"
CONFIGURATIONS: Final = ((MUTATING_WEBHOOKS, "ome-mutating-webhooks"), (VALIDATING_WEBHOOKS, "ome-validating-webhooks"))
AUTHORITY_LIFE: Final = timedelta(days=3650)
SERVING_LIFE: Final = timedelta(days=365)
RENEW_BEFORE: Final = timedelta(days=60)
_ATTEMPTS: Final = 5
RETRY_AFTER: Final = 5.0
FILES_EVERY: Final = 10.0
"""Seconds between two looks at mounted files."""
SECRET_EVERY: Final = 600.0
"""Seconds between two looks at the Secret and the configurations; a change of a configuration is seen at once."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """PEM texts: a serving certificate with its key, and the authority that signed it."""

    certificate: bytes
    key: bytes
    authority: bytes
    authority_key: bytes = b""

    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc

    def names(self) -> frozenset[str]:
        """The DNS names and addresses it answers for."""
        certificate = x509.load_pem_x509_certificate(self.certificate)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = [str(address) for address in found.get_values_for_type(x509.IPAddress)]
        return frozenset([*found.get_values_for_type(x509.DNSName), *addresses])

    def secret_data(self) -> dict[str, str]:
        parts = {
            "tls.crt": self.certificate,
            "tls.key": self.key,
            "ca.crt": self.authority,
            "ca.key": self.authority_key,
        }
        return {name: base64.b64encode(part).decode() for name, part in parts.items()}

    @classmethod
    def of_secret(cls, secret: dict[str, Any]) -> Bundle | None:
        """None when something is missing or is no certificate."""
        data = secret.get("data") or {}
        try:
            parts = [base64.b64decode(data[name]) for name in ("tls.crt", "tls.key", "ca.crt", "ca.key")]
            bundle = cls(*parts)
            bundle.names()
        except (KeyError, ValueError, x509.ExtensionNotFound):
            return None
        return bundle


def serving_names(namespace: str) -> tuple[str, ...]:
    """What the API server may call the webhooks: their Service, or loopback when the manager runs outside."""
    service = f"{SERVICE_NAME}.{namespace}.svc"
    return (service, f"{service}.cluster.local", "localhost", "127.0.0.1", "::1")


def make_bundle(names: Sequence[str], now: datetime, authority: Bundle | None = None) -> Bundle:
    """A serving certificate for the names, signed by the authority of an earlier bundle or by a new one."""
    if authority is None or not authority.authority_key:
        ca, ca_key = _new_authority(now)
    else:
        ca = x509.load_pem_x509_certificate(authority.authority)
        loaded = serialization.load_pem_private_key(authority.authority_key, password=None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey) or ca.not_valid_after_utc < now + SERVING_LIFE:
            ca, ca_key = _new_authority(now)
        else:
            ca_key = loaded
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _sign(key.public_key(), _subject(names[0]), ca.subject, ca_key, now, SERVING_LIFE, names=names)
    return Bundle(_pem(certificate), _key_pem(key), _pem(ca), _key_pem(ca_key))


def _new_authority(now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject("ome-webhook-ca")
    return _sign(key.public_key(), subject, subject, key, now, AUTHORITY_LIFE, names=()), key


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _sign(
    public: ec.EllipticCurvePublicKey,
    subject: x509.Name,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
    *,
    names: Sequence[str],
) -> x509.Certificate:
    authority = not names
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        # Clocks differ between machines.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + life)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(authority=authority), critical=True)
    )
    if not authority:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False
        ).add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


# -- TLS ---------------------------------------------------------------------------------------------------------------


def server_context() -> ssl.SSLContext:
    """A server context without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def load_bundle(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use the certificate for connections from now on. The ssl module reads files only, so they exist for a moment."""
    with tempfile.TemporaryDirectory(prefix="ome-webhook-") as folder:
        chain, private = Path(folder, "tls.crt"), Path(folder, "tls.key")
        chain.write_bytes(certificate)
        private.touch(mode=0o600)
        private.write_bytes(key)
        context.load_cert_chain(chain, private)


def self_signed_context(names: Sequence[str] = ("localhost", "127.0.0.1")) -> ssl.SSLContext:
    """A context with a certificate that lives and dies with this process (the metrics port with `--metrics-secure`)."""
    bundle = make_bundle(names, datetime.now(UTC))
    context = server_context()
    load_bundle(context, bundle.certificate, bundle.key)
    return context


# -- keepers -----------------------------------------------------------------------------------------------------------


class MountedCertificate:
    """`tls.crt` and `tls.key` of a directory that somebody else keeps fresh."""

    every = FILES_EVERY

    def __init__(self, directory: Path, context: ssl.SSLContext) -> None:
        self._directory = directory
        self._context = context
        self._loaded: tuple[bytes, bytes] | None = None

    @staticmethod
    def present(directory: Path) -> bool:
        return (directory / "tls.crt").is_file() and (directory / "tls.key").is_file()

    async def ensure(self) -> None:
        """Load the files if they changed. Raises `OSError`, `ssl.SSLError`."""
        current = ((self._directory / "tls.crt").read_bytes(), (self._directory / "tls.key").read_bytes())
        if current != self._loaded:
            load_bundle(self._context, *current)
            self._loaded = current


class SharedCertificate:
    """The Secret that all replicas share, and the trust of both webhook configurations."""

    every = SECRET_EVERY

    def __init__(self, client: Client, clock: Clock, namespace: str, context: ssl.SSLContext) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._context = context
        self._names = serving_names(namespace)
        self._loaded: Bundle | None = None

    async def ensure(self) -> None:
        """Read or renew the Secret, load it, and be trusted. Raises `KubeError`."""
        bundle = await self._shared()
        if bundle != self._loaded:
            load_bundle(self._context, bundle.certificate, bundle.key)
            self._loaded = bundle
        for resource, name in CONFIGURATIONS:
            await self._trust(resource, name, base64.b64encode(bundle.authority).decode())

    async def _shared(self) -> Bundle:
        for _ in range(_ATTEMPTS):
            stored = await self._client.find(SECRETS, SECRET_NAME, self._namespace, into=dict)
            bundle = None if stored is None else Bundle.of_secret(stored)
            if bundle is not None and self._good(bundle):
                return bundle
            fresh = make_bundle(self._names, self._clock.now(), bundle)
            try:
                await self._store(fresh, stored)
            except (AlreadyExists, Conflict, NotFound):
                continue  # another replica was faster: use its certificate
            log.info("made a certificate for the webhooks", extra={"expires": fresh.expires().isoformat()})
            return fresh
        raise TimeoutError(f"the Secret {self._namespace}/{SECRET_NAME} changes faster than it can be read")

    def _good(self, bundle: Bundle) -> bool:
        return bundle.expires() - RENEW_BEFORE > self._clock.now() and frozenset(self._names) <= bundle.names()

    async def _store(self, bundle: Bundle, stored: dict[str, Any] | None) -> None:
        if stored is not None:
            await self._client.replace(SECRETS, {**stored, "data": bundle.secret_data()})
            return
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET_NAME, "namespace": self._namespace},
            "type": "kubernetes.io/tls",
            "data": bundle.secret_data(),
        }
        await self._client.create(SECRETS, secret, namespace=self._namespace)

    async def _trust(self, resource: Resource, name: str, authority: str) -> None:
        """Put the authority into every webhook of a configuration that has another one, or none."""
        for attempt in range(1, _ATTEMPTS + 1):
            found = await self._client.find(resource, name, into=dict)
            patch = _bundle_patch(found, authority)
            if not patch:
                return
            try:
                await self._client.patch(resource, name, "", patch, type=PatchType.JSON)
            except (Conflict, Invalid):
                # Another replica was faster, and the patch's own test failed: look again.
                if attempt == _ATTEMPTS:
                    raise
                continue
            log.info("the API server now trusts the webhooks' certificate", extra={"configuration": name})
            return


def _bundle_patch(configuration: dict[str, Any] | None, authority: str) -> list[dict[str, Any]]:
    """A JSON patch that holds only for exactly this state of the configuration; empty when nothing is to be done."""
    if configuration is None:
        return []  # nobody calls these webhooks
    changes = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": authority}
        for index, hook in enumerate(configuration.get("webhooks") or [])
        if hook["clientConfig"].get("caBundle") != authority
    ]
    version = configuration["metadata"]["resourceVersion"]
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, *changes] if changes else []


Keeper = MountedCertificate | SharedCertificate


async def keep(keeper: Keeper, changed: asyncio.Event) -> None:
    """Look whenever something changed, and now and then, until cancelled. What goes wrong is logged and tried again;
    the old certificate serves meanwhile."""
    every = keeper.every
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(every):
                await changed.wait()
        changed.clear()
        try:
            await keeper.ensure()
            every = keeper.every
        except (KubeError, OSError, ssl.SSLError, ValueError) as error:
            every = RETRY_AFTER
            log.error("the webhooks' certificate could not be looked after", extra={"error": str(error)})
