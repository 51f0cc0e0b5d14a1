"""Reading plain Kubernetes objects that may be malformed anywhere: each accessor answers with a usable value or None.
Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

COMPONENTS = ("engine", "decoder", "router")

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_IDENTITY = re.compile(r"[\x21-\x7e]{1,253}")
_HASH = re.compile(r"[0-9a-f]{8}")
_GENERATION = re.compile(r"0|[1-9][0-9]{0,18}")


def component_order(component: str) -> int:
    """engine, decoder, router, then anything else."""
    return COMPONENTS.index(component) if component in COMPONENTS else len(COMPONENTS)


def get(obj: Any, *path: str) -> Any:
    """The value at a path of keys, or None as soon as something on the way is not an object."""
    for key in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(key)
    return obj


def text(obj: Any, *path: str) -> str:
    """The string at a path, or `""`."""
    value = get(obj, *path)
    return value if isinstance(value, str) else ""


def integer(obj: Any, *path: str) -> int | None:
    """The integer at a path; None when absent or not one (a boolean is not)."""
    value = get(obj, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(obj: Any, *path: str) -> int:
    """An integer that the API omits when it is zero."""
    return integer(obj, *path) or 0


def items(obj: Any, *path: str) -> list[Any]:
    """The list at a path, or an empty one."""
    value = get(obj, *path)
    return value if isinstance(value, list) else []


def mapping(obj: Any, *path: str) -> Mapping[str, Any]:
    value = get(obj, *path)
    return value if isinstance(value, Mapping) else {}


def encoded(value: Any) -> bytes:
    """The value as compact JSON, keys in their own order: for sizes and for comparing stored forms."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def name(obj: Any) -> str:
    return text(obj, "metadata", "name")


def namespace(obj: Any) -> str:
    return text(obj, "metadata", "namespace")


def uid(obj: Any) -> str:
    return text(obj, "metadata", "uid")


def resource_version(obj: Any) -> str:
    return text(obj, "metadata", "resourceVersion")


def generation(obj: Any) -> int | None:
    return integer(obj, "metadata", "generation")


def annotation(obj: Any, key: str) -> str | None:
    """The annotation's value; None when the key is absent, `""` when it is there and empty."""
    value = mapping(obj, "metadata", "annotations").get(key)
    return value if isinstance(value, str) else None


def label(obj: Any, key: str) -> str | None:
    value = mapping(obj, "metadata", "labels").get(key)
    return value if isinstance(value, str) else None


def is_deleting(obj: Any) -> bool:
    return get(obj, "metadata", "deletionTimestamp") is not None


def parse_generation(value: str | None) -> int | None:
    """A generation written in an annotation: canonical decimal, or None."""
    if value is None or not _GENERATION.fullmatch(value):
        return None
    return int(value)


def is_subdomain(value: str) -> bool:
    """DNS-1123 subdomain: the names Kubernetes gives objects."""
    return len(value) <= 253 and _SUBDOMAIN.fullmatch(value) is not None


def is_label_name(value: str) -> bool:
    """DNS-1123 label: a namespace's name."""
    return len(value) <= 63 and _LABEL.fullmatch(value) is not None


def is_safe_identity(value: str) -> bool:
    """UIDs, resource versions and the like: printable ASCII without spaces, of bounded length."""
    return _IDENTITY.fullmatch(value) is not None


def is_hash8(value: str) -> bool:
    return _HASH.fullmatch(value) is not None


def condition(obj: Any, kind: str) -> Mapping[str, Any] | None:
    """The first condition of a type in `status.conditions`."""
    for entry in items(obj, "status", "conditions"):
        if isinstance(entry, Mapping) and entry.get("type") == kind:
            return entry
    return None
