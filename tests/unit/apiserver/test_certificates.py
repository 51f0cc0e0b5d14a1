"""The serving certificate names every way in which the server is reached."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from cryptography import x509

from ome.local.apiserver import certificates


def addresses(path: Path) -> set[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(found) for found in names.get_values_for_type(x509.IPAddress)}


def test_pods_that_use_the_service_kubernetes_can_verify_the_server(tmp_path: Path) -> None:
    files = certificates.ensure(tmp_path, ["127.0.0.1"], certificates.utc_now())
    assert addresses(files.serving) == {"127.0.0.1", "10.96.0.1"}


def test_a_certificate_that_covers_everything_is_kept_until_it_nears_its_end(tmp_path: Path) -> None:
    now = certificates.utc_now()
    first = certificates.ensure(tmp_path, ["127.0.0.1"], now).serving.read_bytes()
    assert certificates.ensure(tmp_path, ["127.0.0.1"], now).serving.read_bytes() == first
    late = now + timedelta(days=certificates.SERVING_DAYS - 1)
    assert certificates.ensure(tmp_path, ["127.0.0.1"], late).serving.read_bytes() != first


def test_a_new_address_gets_a_new_certificate_of_the_same_authority(tmp_path: Path) -> None:
    now = certificates.utc_now()
    authority = certificates.ensure(tmp_path, ["127.0.0.1"], now).bundle()
    files = certificates.ensure(tmp_path, ["127.0.0.2"], now)
    assert "127.0.0.2" in addresses(files.serving)
    assert files.bundle() == authority
