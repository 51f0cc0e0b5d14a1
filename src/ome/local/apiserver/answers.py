"""Objects and lists to answers, in the form that was asked for: JSON, YAML, protobuf, Table or metadata only.

The plain JSON of one object is the stored bytes; everything else is made here. Called by the verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from ome.local.apiserver import negotiate
from ome.local.apiserver.calls import Call
from ome.local.apiserver.encoding import encode, list_item
from ome.local.apiserver.errors import Problem
from ome.local.apiserver.http import HttpResponse
from ome.local.apiserver.negotiate import JSON, PROTOBUF, YAML, Form
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.versions import served_body

NO_CACHE: Final = "no-cache, private"
TableMaker = Callable[[Call, ResourceType, Sequence[dict[str, Any]], bool], dict[str, Any]]


def headers(content_type: str) -> dict[str, str]:
    return {"content-type": content_type, "cache-control": NO_CACHE}


def status_of(problem: Problem, accept: str, *, pretty: bool = False) -> HttpResponse:
    """A refusal as a Status, in a form the client takes; JSON when it takes none."""
    try:
        form = negotiate.choose(accept) if accept else negotiate.PLAIN
    except Problem:
        form = negotiate.PLAIN
        wanted = negotiate.clauses(accept)
        only_protobuf = bool(wanted) and all(clause.media_type == PROTOBUF for clause in wanted)
        if only_protobuf and not wanted[0].get("as"):
            form = Form(PROTOBUF)
        pretty = pretty or only_protobuf
    return HttpResponse(
        problem.code,
        {**headers(form.media_type), **problem.headers},
        dump(problem.status(), form.media_type, pretty=pretty),
        problem.warnings,
    )


def dump(value: dict[str, Any], media_type: str, *, pretty: bool = False) -> bytes:
    """A whole object in a media type. It must carry kind and apiVersion."""
    if media_type == YAML:
        return negotiate.dump_yaml(value)
    if media_type == PROTOBUF:
        from ome.local.apiserver.protobuf import encode_object

        return encode_object(value)
    return negotiate.dump_json(value, pretty=pretty) + (b"" if pretty else b"\n")


def _finish(call: Call, status: int, form: Form, data: bytes) -> HttpResponse:
    return HttpResponse(status, headers(form.media_type), data, tuple(call.warnings))


def one(call: Call, body: bytes, status: int = 200, *, tables: TableMaker) -> HttpResponse:
    """Stored bytes of one object, answered in the form asked for."""
    form = call.form()
    data = served_body(call.type, body)
    if form is negotiate.PLAIN or (not form.transform and form.media_type == JSON):
        if call.pretty():
            return _finish(call, status, form, negotiate.dump_json(orjson.loads(data), pretty=True))
        return _finish(call, status, form, data + b"\n")
    return _transformed(call, orjson.loads(data), status, form, tables)


def plain(call: Call, obj: dict[str, Any], status: int = 200, *, tables: TableMaker | None = None) -> HttpResponse:
    """Any object (with kind and apiVersion) in the form asked for; reviews, Scale and the like have no Table."""
    form = call.form()
    if form.transform and tables is not None:
        return _transformed(call, obj, status, form, tables)
    return _finish(call, status, form, dump(obj, form.media_type, pretty=call.pretty()))


def _transformed(call: Call, obj: dict[str, Any], status: int, form: Form, tables: TableMaker) -> HttpResponse:
    if form.transform == "Table":
        table = tables(call, call.type, [obj], True)
        table["metadata"] = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        table["apiVersion"] = f"meta.k8s.io/{form.version}"
        return _finish(call, status, form, dump(table, form.media_type, pretty=call.pretty()))
    if form.transform == "PartialObjectMetadata":
        obj = metadata_only(obj, form.version)
    elif form.transform:
        kind = call.type.kind
        text = f"you requested {form.transform}, but the requested object is not a list (*{_go(call.type)}.{kind})"
        raise Problem(406, "NotAcceptable", text)
    elif call.type.custom is None:
        obj = orjson.loads(encode(obj, call.type.api_version, call.type.kind, custom=False))
    return _finish(call, status, form, dump(obj, form.media_type, pretty=call.pretty()))


def _go(type_: ResourceType) -> str:
    """The package of a kind's internal type, as errors print it."""
    return type_.group.partition(".")[0] or "core"


def metadata_only(obj: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata") or {},
    }


def many(call: Call, bodies: Sequence[bytes], metadata: dict[str, Any], *, tables: TableMaker) -> HttpResponse:
    """A list of stored objects. metadata: its ListMeta, resourceVersion and perhaps continue and remainingItemCount."""
    form = call.form()
    type_ = call.type
    if form.transform == "PartialObjectMetadata":
        text = f"you requested {form.transform}, but the requested object is a list (*{_go(type_)}.{type_.list_kind})"
        raise Problem(406, "NotAcceptable", text)
    if not form.transform and form.media_type == JSON and type_.stored_as_served and not call.pretty():
        return _finish(call, 200, form, joined(type_, bodies, metadata))
    served = [served_body(type_, body) for body in bodies]
    if not form.transform and form.media_type == JSON:
        items = [orjson.loads(body) for body in served]
        return _finish(call, 200, form, dump(_list(type_, items, metadata), JSON, pretty=call.pretty()))
    objects = [orjson.loads(body) for body in served]
    if form.transform == "Table":
        table = tables(call, type_, objects, True)
        table["metadata"] = metadata
        table["apiVersion"] = f"meta.k8s.io/{form.version}"
        return _finish(call, 200, form, dump(table, form.media_type, pretty=call.pretty()))
    if form.transform:
        value = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.version}",
            "metadata": metadata,
            "items": [metadata_only(obj, form.version) for obj in objects],
        }
        return _finish(call, 200, form, dump(value, form.media_type, pretty=call.pretty()))
    return _finish(call, 200, form, dump(_list(type_, objects, metadata), form.media_type, pretty=call.pretty()))


def list_head(type_: ResourceType) -> dict[str, Any]:
    kind = type_.list_kind
    return (
        {"apiVersion": type_.api_version, "kind": kind}
        if type_.custom
        else {"kind": kind, "apiVersion": type_.api_version}
    )


def list_metadata(
    type_: ResourceType, revision: str, continue_: str = "", remaining: int | None = None
) -> dict[str, Any]:
    """ListMeta: custom resources name an empty continue, core ones leave it out."""
    out: dict[str, Any] = {}
    if type_.custom is not None:
        out["continue"] = continue_
        if remaining:
            out["remainingItemCount"] = remaining
        out["resourceVersion"] = revision
        return out
    out["resourceVersion"] = revision
    if continue_:
        out["continue"] = continue_
    if remaining:
        out["remainingItemCount"] = remaining
    return out


def _list(type_: ResourceType, items: list[dict[str, Any]], metadata: dict[str, Any]) -> dict[str, Any]:
    if type_.custom is None:
        for item in items:
            item.pop("kind", None)
            item.pop("apiVersion", None)
    out = list_head(type_)
    if type_.custom is not None:
        return {"apiVersion": out["apiVersion"], "items": items, "kind": out["kind"], "metadata": metadata}
    return {**out, "metadata": metadata, "items": items}


def joined(type_: ResourceType, bodies: Sequence[bytes], metadata: dict[str, Any]) -> bytes:
    """A list in JSON, made of the stored bytes without parsing them."""
    items = b",".join([list_item(type_, body) for body in bodies])
    meta = orjson.dumps(metadata)
    if type_.custom is not None:
        start = b'{"apiVersion":' + orjson.dumps(type_.api_version) + b',"items":['
        end = b'],"kind":' + orjson.dumps(type_.list_kind) + b',"metadata":' + meta + b"}\n"
        return start + items + end
    head = orjson.dumps(list_head(type_))[:-1]
    return head + b',"metadata":' + meta + b',"items":[' + items + b"]}\n"
