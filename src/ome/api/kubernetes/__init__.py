"""The Kubernetes API types as data: OpenAPI schemas, kinds and protobuf field numbers.

Derived by `hack/kubernetes/derive.py` from the modules that its `go.mod` names; see NOTICE. Read by the CRD generator
(`ome.api`) and by the embedded API server. Not typed objects: those are `ome.api.core`.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib import resources
from typing import Any

VERSION = "v1.37.2"


def _load(name: str) -> Any:
    raw = resources.files(__package__).joinpath(name).read_bytes()
    return json.loads(gzip.decompress(raw))


@cache
def definitions() -> dict[str, dict[str, Any]]:
    """OpenAPI v3 component schemas by name, e.g. `io.k8s.api.core.v1.PodSpec`. Shared: never change what it returns."""
    loaded: dict[str, dict[str, Any]] = _load("definitions.json.gz")
    return loaded


@cache
def enumerations() -> dict[str, dict[str, list[Any]]]:
    """Definition -> property -> [allowed values, whether they are those of a list's elements, explanation to append].

    Shared: never change what it returns.
    """
    loaded: dict[str, dict[str, list[Any]]] = _load("enumerations.json.gz")
    return loaded


@cache
def protobuf_messages() -> dict[str, dict[str, list[Any]]]:
    """Message name -> field number (text) -> [field name, type, repeated]. `k8s.io.api.core.v1.Pod` is a name."""
    loaded: dict[str, dict[str, list[Any]]] = _load("protobuf.json.gz")
    return loaded
