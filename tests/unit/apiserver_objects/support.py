"""Builders and helpers of these tests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hypothesis import settings

from ome.local.apiserver import kinds, ownership
from ome.local.apiserver.errors import FieldError

PROPERTY = settings(deadline=None, max_examples=50)
"""For properties: no deadline, the machine may be busy."""
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CREATED = "2026-01-02T03:04:05Z"


def identified(obj: dict[str, Any], group: str, version: str, kind: str) -> dict[str, Any]:
    """What the pipeline adds before a strategy prepares an object."""
    obj["apiVersion"] = f"{group}/{version}" if group else version
    obj["kind"] = kind
    obj.setdefault("metadata", {}).setdefault("namespace", "ns")
    obj["metadata"].update(uid="11111111-2222-4333-8444-555555555555", creationTimestamp=CREATED)
    return obj


def created(body: Mapping[str, Any], group: str, version: str, kind: str) -> tuple[dict[str, Any], list[FieldError]]:
    """(A new object as it would be stored, its faults)."""
    strategy = kinds.strategy(group, version, kind)
    obj, _ = strategy.decode(dict(body))
    identified(obj, group, version, kind)
    strategy.default(obj)
    strategy.prepare_create(obj)
    return obj, strategy.validate_create(obj)


def updated(
    body: Mapping[str, Any], old: Mapping[str, Any], group: str, version: str, kind: str, subresource: str = ""
) -> tuple[dict[str, Any], list[FieldError]]:
    """(The object after a write of `body` over `old`, its faults)."""
    strategy = kinds.strategy(group, version, kind)
    obj, _ = strategy.decode(dict(body))
    obj["apiVersion"], obj["kind"] = old["apiVersion"], old["kind"]
    strategy.default(obj)
    strategy.prepare_update(obj, old, subresource)
    return obj, strategy.validate_update(obj, old, subresource)


def texts(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]


def context(group: str, version: str, kind: str, manager: str = "me", *, subresource: str = "") -> ownership.Context:
    strategy = kinds.strategy(group, version, kind)
    return ownership.Context(
        manager=manager,
        api_version=f"{group}/{version}" if group else version,
        type=strategy.type,
        now=NOW,
        zero=strategy.zero(),
        subresource=subresource,
        reset=strategy.reset_fields(subresource),
    )


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [container()], **spec}}


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i", **fields}


def workload(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}}
    return {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}}
