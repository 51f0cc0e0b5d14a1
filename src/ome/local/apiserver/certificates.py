"""The server's own certificate authority, its serving certificate, and the key that signs ServiceAccount tokens.

All live as PEM files in one folder, made once and kept; the key files are readable by the owner alone. Called at start.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ome.local.apiserver.network import FIRST_ADDRESS

AUTHORITY_DAYS: Final = 3650
SERVING_DAYS: Final = 365
RENEW_BEFORE: Final = timedelta(days=30)
SERVICE_NAMES: Final = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of the PEM files, and the authority's certificate as text."""

    authority: Path
    authority_key: Path
    serving: Path
    serving_key: Path
    token_key: Path

    def bundle(self) -> str:
        return self.authority.read_text()

    def server_context(self) -> ssl.SSLContext:
        """TLS for the server; a client certificate is asked for but not demanded."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.serving, self.serving_key)
        context.load_verify_locations(self.authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def ensure(folder: Path, addresses: Sequence[str], now: datetime) -> Certificates:
    """Load the certificates of a folder, making what is missing or about to expire.

    The server is found at `addresses`, and by pods at the address of the Service `kubernetes`.
    """
    addresses = [*addresses, FIRST_ADDRESS]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = Certificates(
        folder / "ca.crt", folder / "ca.key", folder / "serving.crt", folder / "serving.key", folder / "tokens.key"
    )
    if not files.authority.exists() or not files.authority_key.exists():
        _make_authority(files, now)
    if not files.serving.exists() or _expires_soon(files.serving, now) or not _covers(files.serving, addresses):
        _make_serving(files, addresses, now)
    if not files.token_key.exists():
        _write_private(files.token_key, _pem(ec.generate_private_key(ec.SECP256R1())))
    return files


def client_certificate(files: Certificates, name: str, groups: Sequence[str], now: datetime) -> tuple[str, str]:
    """(certificate, key) as PEM text for a user of the cluster."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate = _signed(files, subject, key, now, SERVING_DAYS).add_extension(usage, critical=False)
    signed = certificate.sign(_load_key(files.authority_key), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode(), _pem(key).decode()


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} does not hold an elliptic curve key")
    return key


def _expires_soon(path: Path, now: datetime) -> bool:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return certificate.not_valid_after_utc - now < RENEW_BEFORE


def _covers(path: Path, addresses: Sequence[str]) -> bool:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    covered = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    covered |= set(names.get_values_for_type(x509.DNSName))
    return all(address in covered for address in addresses)


def _make_authority(files: Certificates, now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ome-local-ca")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )
    _write_private(files.authority_key, _pem(key))
    files.authority.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _signed(
    files: Certificates, subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
    issuer_key = _load_key(files.authority_key)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


def _make_serving(files: Certificates, addresses: Sequence[str], now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVICE_NAMES]
    for address in addresses:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError:
            if address not in SERVICE_NAMES:
                names.append(x509.DNSName(address))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ome-local-apiserver")])
    certificate = (
        _signed(files, subject, key, now, SERVING_DAYS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(_load_key(files.authority_key), hashes.SHA256())
    )
    _write_private(files.serving_key, _pem(key))
    files.serving.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def utc_now() -> datetime:
    """The machine's time, for certificates only: they are checked by others' clocks."""
    return datetime.now(UTC)
