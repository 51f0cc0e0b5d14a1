"""The validating webhooks of BaseModels and ClusterBaseModels (`spec/models.md` section 2)."""

from __future__ import annotations

from typing import Any

from ome.admission.review import ALLOWED, Verdict, deny

Json = dict[str, Any]


def validate_model(new: Json, *, cluster: bool) -> Verdict:
    """`cluster`: a ClusterBaseModel. Only claims (`pvc://`) can be written wrong."""
    spec = new.get("spec") or {}
    uri = (spec.get("storage") or {}).get("storageUri") or ""
    if not uri.startswith("pvc://"):
        return ALLOWED
    place, _, path = uri.removeprefix("pvc://").partition("/")
    problem = _shape_problem(place, path)
    if problem:
        return deny(f'invalid PVC storage URI "{uri}": invalid PVC storage URI format: {problem}')
    if cluster and ":" not in place:
        return deny(
            "ClusterBaseModel PVC URI must specify a namespace (format: pvc://{namespace}:{pvc-name}/{sub-path}), "
            f'got "{uri}"'
        )
    if not cluster and ":" in place:
        return deny(
            "namespaced BaseModel PVC URI must not specify a namespace; the BaseModel's own namespace is used, "
            f'got "{uri}"'
        )
    if spec.get("distribution") == "Sharded":
        return deny(
            "PVC storage URIs are not compatible with distribution=Sharded; use distribution=PerNode (or omit) for "
            "pvc:// models"
        )
    return ALLOWED


def _shape_problem(place: str, path: str) -> str:
    if not path.strip("/"):
        return "missing subpath"
    namespace, colon, claim = place.partition(":")
    if colon and not namespace:
        return "missing namespace"
    if not (claim if colon else namespace):
        return "missing PVC name"
    return ""
