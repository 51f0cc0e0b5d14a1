"""JSON merge patch (RFC 7386)."""

from __future__ import annotations

from typing import Any

from ome.local.apiserver.errors import bad_request


def merge_patch(doc: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The document after a merge patch; `null` removes. Raises 400 when the patch is no object."""
    if not isinstance(patch, dict):
        text = f"json: cannot unmarshal {_kind(patch)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding patch: {text}")
    return _merge(doc, patch)


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "array"
    return "string" if isinstance(value, str) else "bool" if isinstance(value, bool) else "number"


def _merge(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merge(result.get(key), value)
        else:
            result[key] = value
    return result
