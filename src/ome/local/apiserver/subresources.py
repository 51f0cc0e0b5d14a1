"""Subresources that are more than a part of their object: scale, binding, eviction, log, exec, port-forward, finalize.

`status` is an ordinary change (`writes.py`), token requests are in `reviews.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import orjson

from ome.local.apiserver import answers, bodies, patches
from ome.local.apiserver.admission import Admission, Attributes
from ome.local.apiserver.answers import TableMaker
from ome.local.apiserver.calls import Call, write_options
from ome.local.apiserver.core import Core
from ome.local.apiserver.deletion import DeleteOptions, Deletion
from ome.local.apiserver.errors import (
    FieldError,
    Problem,
    bad_request,
    conflict,
    internal_error,
    invalid,
    invalid_value,
    not_found,
    required,
)
from ome.local.apiserver.eviction import Evictions
from ome.local.apiserver.http import ExecOptions, ExecSource, HttpResponse, LogOptions, LogSource
from ome.local.apiserver.pipeline import typed
from ome.local.apiserver.printing.layouts import labels_text, selector_text
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.store import Record
from ome.local.apiserver.writes import Writes

Object = dict[str, Any]
SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
BINDING: Final = "io.k8s.api.core.v1.Binding"
EVICTION: Final = "io.k8s.api.policy.v1.Eviction"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_SUCCESS: Final[Object] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


SCALES: Final = ResourceType(
    "autoscaling", "v1", "scales", "scale", "Scale", True, storage="scales.autoscaling",
    storage_api_version="autoscaling/v1",
)  # fmt: skip
"""A Scale as if it were a resource, for the columns of its Table."""


class Subresources:
    """Answers requests of subresources."""

    def __init__(
        self,
        core: Core,
        writes: Writes,
        deletion: Deletion,
        admission: Admission,
        *,
        logs: LogSource | None,
        execs: ExecSource | None,
        tables: TableMaker,
    ) -> None:
        self._core = core
        self._writes = writes
        self._admission = admission
        self._evictions = Evictions(core, deletion)
        self._logs = logs
        self._execs = execs
        self._tables = tables

    def _record(self, call: Call) -> Record:
        record = self._core.get(call.type, call.namespace, call.name)
        if record is None:
            raise not_found(call.type.plural, call.type.group, call.name)
        return record

    # -- scale

    async def scale(self, call: Call) -> HttpResponse:
        """GET, PUT and PATCH of a Scale."""
        verb = call.route.verb
        record = self._record(call)
        shown = replace(call, type=SCALES)
        if verb == "get":
            return answers.plain(shown, scale_of(call.type, record.parse()), tables=self._tables)
        kind = "UpdateOptions" if verb == "update" else "PatchOptions"
        apply = bodies.media_type(call.request.headers.get("content-type")) == APPLY_PATCH and verb == "patch"
        call.dry_run, call.field_validation = write_options(call.query, kind, apply=apply)
        wanted = self._wanted_scale(call, record)
        version = wanted["metadata"].get("resourceVersion")
        if version and version != str(record.rv):
            raise conflict(call.type.plural, call.type.group, call.name)
        old = scale_of(call.type, record.parse(), lenient=True)
        attributes = Attributes.of(call, "UPDATE", call.name)
        wanted = await self._admission.mutate(attributes, wanted, old, call.warnings)
        replicas = _replicas(call, wanted)
        await self._admission.validate(attributes, wanted, old, call.warnings)

        def change(obj: Object) -> Object:
            if version and version != obj["metadata"]["resourceVersion"]:
                raise conflict(call.type.plural, call.type.group, call.name)
            _set_replicas(call.type, obj, replicas)
            return obj

        _, stored = await self._writes.change_object(call, change, admitted=True)
        await self._core.settled()
        return answers.plain(shown, scale_of(call.type, stored), tables=self._tables)

    def _wanted_scale(self, call: Call, record: Record) -> Object:
        """The Scale that a PUT or PATCH asks for, whole."""
        kind = call.request.headers.get("content-type")
        current = scale_of(call.type, record.parse(), lenient=call.route.verb == "update")
        if call.route.verb == "update":
            _check_scale_kind(bodies.decode(call.request.body, kind, "Scale", check_duplicates=False).value)
            body = typed(call.request.body, kind, "Scale", SCALE)
        else:
            body = self._patched_scale(call, current)
        metadata = body.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        name = metadata.get("name")
        if not name:
            raise bad_request(
                f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
            )
        if name != call.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        replicas = _replicas(call, body)
        spec = {"replicas": replicas} if replicas else {}
        kept = {**current["metadata"], **metadata}
        return {**current, "metadata": kept, "spec": spec}

    def _patched_scale(self, call: Call, current: Object) -> Object:
        kind = bodies.media_type(call.request.headers.get("content-type") or "none")
        try:
            patch = bodies.parse_json(call.request.body)
        except ValueError:
            patch = None
        if kind == "application/json-patch+json":
            result: Any = patches.json_patch(current, patch)
        elif kind == "application/merge-patch+json":
            result = patches.merge_patch(current, patch)
        elif kind == "application/strategic-merge-patch+json":
            result = patches.strategic_merge(current, patch, SCALE)
        elif kind == "application/apply-patch+yaml":
            try:
                value, _ = bodies.parse_yaml(call.request.body)
            except ValueError:
                value = None
            result = patches.merge_patch(current, value)
        else:
            raise Problem(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        if not isinstance(result, dict):
            raise bad_request("Invalid JSON Patch")
        return typed(orjson.dumps(result), None, "Scale", SCALE)

    # -- pods

    async def binding(self, call: Call, *, legacy: bool = False) -> HttpResponse:
        """POST of pods/binding (or, legacy, of bindings): put a pod on a node."""
        call.dry_run, _ = write_options(call.query, "CreateOptions")
        body = typed(call.request.body, call.request.headers.get("content-type"), "Binding", BINDING)
        metadata, target = body.get("metadata") or {}, body.get("target") or {}
        name = metadata.get("name") or call.name
        if not legacy and name != call.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        errors: list[FieldError] = []
        if target.get("kind") not in (None, "", "Node", "Minion"):
            from ome.local.apiserver.errors import not_supported

            errors.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
        if not target.get("name"):
            errors.append(required("target.name"))
        if errors:
            raise invalid("Binding", "", name, errors)
        pods = self._core.registry.find("", "v1", "pods")
        record = self._core.get(pods, call.namespace, name) if pods is not None else None
        if pods is None or record is None:
            raise not_found("pods", "", name)
        attributes = Attributes.of(call, "CREATE", name)
        placed = {**metadata, "name": name, "namespace": call.namespace}
        binding = {"kind": "Binding", "apiVersion": "v1", **body, "metadata": placed}
        await self._admission.mutate(attributes, binding, None, call.warnings)
        await self._admission.validate(attributes, binding, None, call.warnings)
        record = self._core.get(pods, call.namespace, name)
        if record is None:
            raise not_found("pods", "", name)
        pod = record.parse()
        self._bind(pod, name, str(target["name"]), metadata)
        if not call.dry_run:
            self._core.update(pods, pod, record)
            await self._core.settled()
        return answers.plain(call, dict(_SUCCESS), 201)

    def _bind(self, pod: Object, name: str, node: str, metadata: Object) -> None:
        spec = pod.setdefault("spec", {})
        if pod["metadata"].get("deletionTimestamp"):
            raise conflict("pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise conflict("pods/binding", "", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
        if spec.get("schedulingGates"):
            raise conflict("pods/binding", "", name, f"pod {name} has non-empty .spec.schedulingGates")
        spec["nodeName"] = node
        for key in ("annotations", "labels"):
            if metadata.get(key):
                pod["metadata"][key] = {**(pod["metadata"].get(key) or {}), **metadata[key]}
        status = pod.setdefault("status", {})
        condition = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._core.now(),
        }
        if pod["metadata"].get("generation"):
            condition["observedGeneration"] = pod["metadata"]["generation"]
        others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
        status["conditions"] = [*others, condition]

    async def eviction(self, call: Call) -> HttpResponse:
        """POST of pods/eviction. Raises Problem 429 when a disruption budget forbids it."""
        query_dry, _ = write_options(call.query, "CreateOptions")
        body = typed(call.request.body, call.request.headers.get("content-type"), "Eviction", EVICTION)
        name = (body.get("metadata") or {}).get("name") or call.name
        if name != call.name:
            raise bad_request("name in URL does not match name in Eviction object")
        record = self._record(call)
        options = body.get("deleteOptions") or {}
        dry_run = query_dry or bool(options.get("dryRun"))
        preconditions = options.get("preconditions") or {}
        uid = str(preconditions.get("uid") or "")
        if uid and uid != record.uid:
            message = (
                f"the UID in the precondition ({uid}) does not match the UID in record ({record.uid}). "
                "The object might have been deleted and then recreated"
            )
            raise conflict("Pod", "", name, message)
        call.dry_run = dry_run
        attributes = Attributes.of(call, "CREATE", name)
        eviction = {"kind": "Eviction", "apiVersion": "policy/v1", **body}
        eviction["metadata"] = {**body["metadata"], "name": name, "namespace": call.namespace}
        await self._admission.mutate(attributes, eviction, None, call.warnings)
        await self._admission.validate(attributes, eviction, None, call.warnings)
        wanted = DeleteOptions(
            grace=options.get("gracePeriodSeconds"),
            policy=str(options.get("propagationPolicy") or ""),
            dry_run=dry_run,
        )
        self._evictions.evict(call.type, self._record(call), wanted)
        await self._core.settled()
        return answers.plain(call, dict(_SUCCESS), 201)

    def log(self, call: Call) -> HttpResponse:
        """GET of pods/log: text, and with follow a stream that goes on."""
        pod = self._record(call).parse()
        options = self._log_options(call, pod)
        if not (pod.get("spec") or {}).get("nodeName"):
            return HttpResponse(204, {"cache-control": answers.NO_CACHE})
        if self._logs is None:
            raise internal_error(f"no logs are kept for pods of this server: {call.namespace}/{call.name}")
        headers = {"content-type": "text/plain", "cache-control": answers.NO_CACHE}
        return HttpResponse(200, headers, self._logs.logs(pod, options))

    def _log_options(self, call: Call, pod: Object) -> LogOptions:
        query = call.query
        container = self._container(pod, query.get("container"))
        errors: list[FieldError] = []
        tail, limit, since = (query.integer(name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
        if tail is not None and tail < 0:
            errors.append(invalid_value("tailLines", tail, "must be greater than or equal to 0"))
        if limit is not None and limit < 1:
            errors.append(invalid_value("limitBytes", limit, "must be greater than 0"))
        if since is not None and since < 1:
            errors.append(invalid_value("sinceSeconds", since, "must be greater than 0"))
        if since is not None and query.get("sinceTime"):
            from ome.local.apiserver.errors import forbidden_field

            errors.append(forbidden_field("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
        if errors:
            raise invalid("PodLogOptions", "", call.name, errors)
        return LogOptions(
            container,
            query.flag("follow"),
            query.flag("previous"),
            query.flag("timestamps"),
            tail,
            since,
            query.get("sinceTime") or None,
            limit,
        )

    def _container(self, pod: Object, given: str) -> str:
        spec = pod.get("spec") or {}
        names = [c["name"] for c in spec.get("containers") or ()]
        inits = [c["name"] for c in spec.get("initContainers") or ()]
        others = [c["name"] for c in spec.get("ephemeralContainers") or ()]
        name = pod["metadata"]["name"]
        if given:
            if given not in (*names, *inits, *others):
                raise bad_request(f"container {given} is not valid for pod {name}")
            return given
        if len(names) == 1:
            return str(names[0])
        text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
        if inits:
            text += f" or one of the init containers: [{' '.join(inits)}]"
        raise bad_request(text)

    def connect(self, call: Call) -> HttpResponse:
        """exec, attach and portforward: an upgrade to a WebSocket that whoever runs the pod speaks."""
        pod = self._record(call).parse()
        sub = call.subresource.name if call.subresource is not None else ""
        if self._execs is None:
            raise internal_error("nothing runs the pods of this server")
        if not (pod.get("spec") or {}).get("nodeName"):
            raise bad_request(f"pod {call.name} does not have a host assigned")
        query = call.query
        if sub == "portforward":
            ports = [int(port) for text in query.all("ports") for port in text.split(",") if port.isdigit()]
            return HttpResponse(101, upgrade=self._execs.port_forward(pod, ports))
        if sub not in ("exec", "attach"):
            text = f"the embedded cluster does not serve {call.type.plural}/{sub}; kubectl port-forward reaches pods"
            raise Problem(503, "ServiceUnavailable", text)
        options = ExecOptions(
            self._container(pod, query.get("container")),
            tuple(query.all("command")),
            query.flag("stdin"),
            query.flag("stdout"),
            query.flag("stderr"),
            query.flag("tty"),
            sub == "attach",
        )
        return HttpResponse(101, upgrade=self._execs.exec(pod, options))


def _replicas(call: Call, scale: Object) -> int:
    """The replicas of a Scale. Raises Problem 400 or 422."""
    spec = scale.get("spec")
    replicas = (spec.get("replicas") if isinstance(spec, dict) else None) or 0
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request(
            'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal '
            f"{'string' if isinstance(replicas, str) else 'object'} into Go struct field "
            "ScaleSpec.spec.replicas of type int32"
        )
    if replicas >= 0:
        return replicas
    if call.type.custom is None:
        error = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", "autoscaling", call.name, [error])
    path = str((call.type.custom.scale or {}).get("specReplicasPath", ".spec.replicas"))
    error = invalid_value(path, replicas, "should be a non-negative integer")
    raise invalid(call.type.kind, call.type.group, call.name, [error])


def _check_scale_kind(body: Object) -> None:
    kind, version = body.get("kind"), body.get("apiVersion")
    if kind in (None, "Scale") and version in (None, "autoscaling/v1"):
        return
    short = str(version or "").rpartition("/")[2]
    raise bad_request(
        f'{kind} in version "{short}" cannot be handled as a Scale: converting ({short}.{kind}) to '
        "(autoscaling.Scale): unknown conversion"
    )


def _at(obj: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def scale_of(type_: ResourceType, obj: Object, *, lenient: bool = False) -> Object:
    """The Scale of an object. Raises Problem 500 when a custom object has no replicas to scale, unless lenient."""
    metadata = obj["metadata"]
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    shown = {name: metadata[name] for name in names if name in metadata}
    custom = type_.custom
    if custom is not None:
        paths = custom.scale or {}
        replicas_path = paths.get("specReplicasPath", ".spec.replicas")
        replicas = _at(obj, replicas_path)
        if replicas is None and not lenient:
            raise internal_error(f'the spec replicas field "{replicas_path}" does not exist')
        current = _at(obj, paths.get("statusReplicasPath", ".status.replicas")) or 0
        selector = _at(obj, paths["labelSelectorPath"]) if paths.get("labelSelectorPath") else ""
    else:
        replicas = _at(obj, "spec.replicas") or 0
        current = _at(obj, "status.replicas") or 0
        given = _at(obj, "spec.selector")
        plain = type_.kind == "ReplicationController"
        selector = "" if given is None else labels_text(given) if plain else selector_text(given)
    status: Object = {"replicas": current}
    if selector:
        status["selector"] = selector
    spec = {"replicas": replicas} if replicas else {}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status}


def _set_replicas(type_: ResourceType, obj: Object, replicas: int) -> None:
    path = ".spec.replicas"
    if type_.custom is not None:
        path = str((type_.custom.scale or {}).get("specReplicasPath", path))
    *parents, last = path.strip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[last] = replicas
