"""Which form an answer takes: the Accept header to a media type and a transformation; JSON and YAML of plain answers.

Pure. Tables and metadata-only forms are made by `answers.py`, protobuf by `protobuf.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from ome.local.apiserver.errors import not_acceptable

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
MEDIA_TYPES: Final = (JSON, YAML, PROTOBUF)
_META_FORMS: Final = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})


@dataclass(frozen=True, slots=True)
class Form:
    """How to answer. transform: `Table`, `PartialObjectMetadata`, `PartialObjectMetadataList` or nothing."""

    media_type: str = JSON
    transform: str = ""
    version: str = "v1"
    stream: bool = False

    @property
    def content_type(self) -> str:
        return self.media_type


PLAIN: Final = Form()


@dataclass(frozen=True, slots=True)
class Clause:
    media_type: str
    parameters: tuple[tuple[str, str], ...]
    quality: float

    def get(self, name: str) -> str:
        return next((value for key, value in self.parameters if key == name), "")


@lru_cache(maxsize=512)
def clauses(accept: str) -> tuple[Clause, ...]:
    """The clauses of an Accept header, best first."""
    out: list[Clause] = []
    for part in accept.split(","):
        media_type, *raw = (piece.strip() for piece in part.split(";"))
        if not media_type:
            continue
        parameters = [(key.strip(), value.strip()) for key, _, value in (p.partition("=") for p in raw)]
        quality = 1.0
        for key, value in parameters:
            if key == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        out.append(Clause(media_type.lower(), tuple(p for p in parameters if p[0] != "q"), quality))
    out.sort(key=lambda clause: -clause.quality)
    return tuple(out)


@lru_cache(maxsize=512)
def choose(accept: str, *, protobuf: bool = True) -> Form:
    """The first acceptable form for objects and lists. Raises Problem 406. protobuf: whether the kind has that form."""
    wanted = clauses(accept)
    if not wanted:
        return PLAIN
    if not any(clause.media_type in ("*/*", *MEDIA_TYPES) for clause in wanted):
        raise not_acceptable(MEDIA_TYPES)
    for clause in wanted:
        form = _form_of(clause, protobuf)
        if form is not None:
            return form
    raise not_acceptable(MEDIA_TYPES, transformation=True)


def _form_of(clause: Clause, protobuf: bool) -> Form | None:
    media_type = JSON if clause.media_type == "*/*" else clause.media_type
    if media_type not in MEDIA_TYPES:
        return None
    transform = clause.get("as")
    if transform:
        if transform not in _META_FORMS or clause.get("g") != "meta.k8s.io":
            return None
        version = clause.get("v")
        if version not in ("v1", "v1beta1") or (transform == "Table" and media_type == PROTOBUF):
            return None
        return Form(media_type, transform, version)
    if media_type == PROTOBUF and not protobuf:
        return None
    return Form(media_type, stream=clause.get("stream") == "watch")


def dump_json(value: Any, *, pretty: bool = False) -> bytes:
    """Compact (or indented) JSON with `<`, `>` and `&` escaped, as a Go server writes it."""
    data = orjson.dumps(value, option=(orjson.OPT_INDENT_2 if pretty else 0) | orjson.OPT_NON_STR_KEYS)
    return escape_html(data)


def escape_html(data: bytes) -> bytes:
    if b"<" in data:
        data = data.replace(b"<", b"\\u003c")
    if b">" in data:
        data = data.replace(b">", b"\\u003e")
    if b"&" in data:
        data = data.replace(b"&", b"\\u0026")
    return data


@lru_cache(maxsize=1)
def _yaml_dumper() -> Any:
    """A dumper that quotes as Go's does: text that would read as something else in double quotes."""
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]
        pass

    def text(dumper: Any, value: str) -> Any:
        if "\n" in value:
            return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|")
        plain = dumper.resolve(yaml.ScalarNode, value, (True, False)) == "tag:yaml.org,2002:str"
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')

    Dumper.add_representer(str, text)
    return Dumper


def dump_yaml(value: Any) -> bytes:
    """YAML in block style with sorted keys."""
    import yaml

    text = yaml.dump(
        value, Dumper=_yaml_dumper(), default_flow_style=False, sort_keys=True, allow_unicode=True, width=2**31 - 1
    )
    return bytes(text, "utf-8")
