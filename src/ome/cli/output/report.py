"""Whole reports as JSON or YAML, and the times in them (spec/cli-runtime-and-wait.md section 1.2). Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from ome.cli.errors import CliError
from ome.cli.output.text import neutralise_json

REPORT_API_VERSION = "cli.ome.io/v1alpha1"


def report(
    kind: str, namespace: str, name: str, collected_at: str, content: Any, *, sources: Any = (), warnings: Any = ()
) -> dict[str, Any]:
    """The envelope of every report; `content` is plain data. `sources` are the kinds read, `warnings` codes."""
    metadata = {"namespace": namespace, "name": name} if namespace else {"name": name}
    return {
        "apiVersion": REPORT_API_VERSION,
        "kind": kind,
        "metadata": metadata,
        "collectedAt": collected_at,
        "sources": [{"kind": source, "evidence": "Observed"} for source in sources],
        "content": content,
        "warnings": [{"code": code} for code in warnings],
    }


def to_json(document: Any) -> str:
    return neutralise_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def to_yaml(document: Any, *, sort_keys: bool = False) -> str:
    """YAML in which hostile characters can only appear as escapes: the emitter writes ASCII."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        document, Dumper=dumper, sort_keys=sort_keys, default_flow_style=False, allow_unicode=False, width=4096
    )
    return text


def encode(document: Any, output: str) -> str:
    """`json` or `yaml`; anything else is a flag that should have been refused before."""
    if output == "json":
        return to_json(document)
    if output == "yaml":
        return to_yaml(document)
    raise CliError(f"unsupported output format {output!r}")


def nanosecond_time(nanoseconds: int) -> str:
    """UTC RFC 3339 with up to nine fractional digits, trailing zeros trimmed: `2026-09-28T14:03:12.418207153Z`."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}".rstrip("0")
    return f"{text}.{digits}Z" if digits else f"{text}Z"


def parse_time(value: Any) -> datetime | None:
    """An RFC 3339 time of the cluster as an aware UTC datetime; None when it is absent or not one."""
    if not isinstance(value, str) or "T" not in value:
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    if parsed.tzinfo is None:
        return None
    return parsed.astimezone(UTC)


def second_time(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def minute_time(value: datetime) -> str:
    """`26-09-28T14:03Z`, the short form of the tables."""
    return value.astimezone(UTC).strftime("%y-%m-%dT%H:%MZ")
