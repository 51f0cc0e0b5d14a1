"""ServiceAccount tokens: signed JWTs (ES256) bound to an account, perhaps to a pod, secret or node; and their reading.

A token is good while its account (and what it is bound to) exists with the same uid, and until it expires.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from ome.local.apiserver.core import Core
from ome.local.apiserver.http import User

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
AUDIENCE: Final = "https://kubernetes.default.svc"
HALF: Final = 32
KEY_ID: Final = "ome-local"
BOUND_KINDS: Final = {"Pod": ("pods", "pod"), "Secret": ("secrets", "secret"), "Node": ("nodes", "node")}


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The signing key in a PEM file. Raises ValueError when it is of another kind."""
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} does not hold an elliptic curve key")
    return key


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a token turned out to be. user is None when it is not valid; error says why."""

    user: User | None
    audiences: tuple[str, ...] = ()
    error: str = ""


class Tokens:
    """Signs and reads tokens."""

    def __init__(self, core: Core, key: ec.EllipticCurvePrivateKey | None = None) -> None:
        self._core = core
        self._given = key
        self._checked: dict[str, dict[str, Any]] = {}

    @property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        if self._given is None:
            self._given = ec.generate_private_key(ec.SECP256R1())
        return self._given

    def issue(
        self, account: dict[str, Any], audiences: Sequence[str], seconds: int, bound: dict[str, Any] | None = None
    ) -> str:
        """A token for a ServiceAccount object. bound: the object that it dies with."""
        metadata = account["metadata"]
        now = int(self._core.clock.now().timestamp())
        private: dict[str, Any] = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
        }
        if bound is not None:
            key = BOUND_KINDS[bound["kind"]][1]
            private[key] = {"name": bound["metadata"]["name"], "uid": bound["metadata"]["uid"]}
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": ISSUER,
            "jti": self._core.new_uid(),
            "kubernetes.io": private,
            "nbf": now,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        return self._signed(claims)

    def _signed(self, claims: dict[str, Any]) -> str:
        head = _encode(json.dumps({"alg": "ES256", "kid": KEY_ID}, separators=(",", ":")).encode())
        text = f"{head}.{_encode(json.dumps(claims, separators=(',', ':')).encode())}"
        r, s = decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_encode(r.to_bytes(HALF, 'big') + s.to_bytes(HALF, 'big'))}"

    def _claims(self, token: str) -> dict[str, Any] | None:
        """The claims of a token that this server signed, whatever they say."""
        known = self._checked.get(token)
        if known is not None:
            return known
        parts = token.split(".")
        if len(parts) != 3:
            return None
        try:
            signature = _decode(parts[2])
            claims = json.loads(_decode(parts[1]))
            if len(signature) != 2 * HALF or not isinstance(claims, dict) or claims.get("iss") != ISSUER:
                return None
            r, s = int.from_bytes(signature[:HALF], "big"), int.from_bytes(signature[HALF:], "big")
            signed = f"{parts[0]}.{parts[1]}".encode()
            self._key.public_key().verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
        except (ValueError, InvalidSignature):
            return None
        if len(self._checked) > 1024:
            self._checked.clear()
        self._checked[token] = claims
        return claims

    def configuration(self) -> dict[str, Any]:
        """What /.well-known/openid-configuration says."""
        return {
            "issuer": ISSUER,
            "jwks_uri": f"{ISSUER}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def keys(self) -> dict[str, Any]:
        """The public key that verifies tokens, as a JWK set."""
        numbers = self._key.public_key().public_numbers()
        x, y = (_encode(value.to_bytes(HALF, "big")) for value in (numbers.x, numbers.y))
        key = {"use": "sig", "kty": "EC", "kid": KEY_ID, "crv": "P-256", "alg": "ES256", "x": x, "y": y}
        return {"keys": [key]}

    def user(self, token: str) -> User | None:
        """Who a token lets in to this server."""
        return self.review(token, (AUDIENCE,)).user

    def review(self, token: str, audiences: Sequence[str]) -> Verdict:
        """Who a token stands for, if it is meant for one of the audiences."""
        claims = self._claims(token)
        if claims is None:
            return Verdict(None, error="invalid bearer token")
        meant = [str(audience) for audience in claims.get("aud") or ()]
        shared = tuple(audience for audience in meant if audience in audiences)
        if not shared:
            quoted, wanted = (" ".join(f'"{a}"' for a in names) for names in (meant, audiences))
            error = f"token audiences [{quoted}] is invalid for the target audiences [{wanted}]"
            return Verdict(None, error=f"[invalid bearer token, {error}]")
        if self._core.clock.now().timestamp() >= float(claims.get("exp", 0)):
            return Verdict(None, error="[invalid bearer token, service account token has expired]")
        return self._living(claims, shared)

    def _living(self, claims: dict[str, Any], audiences: tuple[str, ...]) -> Verdict:
        private = claims.get("kubernetes.io") or {}
        namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
        found = self._core.store.collection("serviceaccounts").get(namespace, account.get("name", ""))
        if found is None or found.uid != account.get("uid"):
            return Verdict(None, error="[invalid bearer token, service account token has been invalidated]")
        extra: dict[str, list[str]] = {"authentication.kubernetes.io/credential-id": [f"JTI={claims.get('jti')}"]}
        for storage, key in BOUND_KINDS.values():
            reference = private.get(key)
            if not reference:
                continue
            scope = "" if storage == "nodes" else namespace
            bound = self._core.store.collection(storage).get(scope, reference.get("name", ""))
            if bound is None or bound.uid != reference.get("uid"):
                return Verdict(None, error="[invalid bearer token, service account token has been invalidated]")
            if key != "secret":
                extra[f"authentication.kubernetes.io/{key}-name"] = [reference["name"]]
                extra[f"authentication.kubernetes.io/{key}-uid"] = [reference["uid"]]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return Verdict(User(str(claims.get("sub")), str(account["uid"]), groups, extra), audiences)
