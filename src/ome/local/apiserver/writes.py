"""The writing verbs but deletion: create, update, patch and server-side apply, each through the same pipeline.

decode -> default -> mutating admission -> prepare -> validate -> validating admission -> commit. Only admission awaits;
afterwards the object is compared with the store, and a patch is made anew when it moved meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ome.local.apiserver import answers, bodies
from ome.local.apiserver.admission import Admission, Attributes
from ome.local.apiserver.answers import TableMaker
from ome.local.apiserver.calls import Call, write_options
from ome.local.apiserver.core import Core
from ome.local.apiserver.errors import (
    Problem,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
    server_error,
    unsupported_media_type,
)
from ome.local.apiserver.http import HttpResponse
from ome.local.apiserver.pipeline import Pipeline
from ome.local.apiserver.store import Record
from ome.local.apiserver.versions import to_served

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
CUSTOM_PATCHES: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
ATTEMPTS: Final = 8
NAME_ATTEMPTS: Final = 8
LONGEST_GENERATED_BASE: Final = 58

_CREATED_BY_UPDATE: Final = frozenset(
    {
        "services", "endpoints", "events", "limitranges", "leases.coordination.k8s.io",
        "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io", "podtemplates",
    }
)  # fmt: skip
_VERSION_REQUIRED: Final = frozenset(
    {
        "leases.coordination.k8s.io", "customresourcedefinitions.apiextensions.k8s.io", "poddisruptionbudgets.policy",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "volumeattachments.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io", "runtimeclasses.node.k8s.io", "servicecidrs.networking.k8s.io",
    }
)  # fmt: skip

Change = Callable[[dict[str, Any]], dict[str, Any]]


class Writes:
    """create, update, patch and apply."""

    def __init__(
        self, core: Core, pipeline: Pipeline, admission: Admission, tables: TableMaker, namespaces: NamespaceCheck
    ) -> None:
        self._core = core
        self._pipeline = pipeline
        self._admission = admission
        self._tables = tables
        self._check_namespace = namespaces

    # -- create

    async def create(self, call: Call) -> HttpResponse:
        call.form()
        call.dry_run, call.field_validation = write_options(call.query, "CreateOptions")
        body = self._body(call)
        obj = self._pipeline.accept(call, body)
        record, stored = await self.create_object(call, obj)
        return await self._answer(call, record, stored, 201)

    async def create_object(
        self, call: Call, obj: dict[str, Any], *, apply: bool = False
    ) -> tuple[Record | None, dict[str, Any]]:
        """Run a decoded object through the pipeline and commit it. (record or None when dry, the object as stored)."""
        core, type_ = self._core, call.type
        metadata = obj["metadata"]
        self._place(call, metadata)
        self._check_namespace(call, metadata.get("name") or "")
        version = metadata.get("resourceVersion")
        if version and not apply:
            raise server_error("resourceVersion should not be set on objects to be created")
        generated = bool(metadata.get("generateName")) and not metadata.get("name")
        for _ in range(NAME_ATTEMPTS if generated else 1):
            attempt = obj if not generated else self._pipeline.copy(obj)
            if generated:
                base = attempt["metadata"]["generateName"][:LONGEST_GENERATED_BASE]
                attempt["metadata"]["name"] = base + core.suffix()
            self._pipeline.default(call, attempt)
            core.stamp(attempt)
            if not apply:
                attempt = self._pipeline.own_created(call, attempt)
            attributes = Attributes.of(call, "CREATE", attempt["metadata"].get("name") or "", apply=apply)
            attempt = await self._admission.mutate(attributes, attempt, None, call.warnings)
            self._pipeline.prepare_create(call, attempt)
            self._pipeline.validate_create(call, attempt)
            await self._admission.validate(attributes, attempt, None, call.warnings)
            name = attempt["metadata"]["name"]
            existing = core.get(type_, attempt["metadata"].get("namespace") or "", name)
            if existing is None:
                break
            if not generated:
                raise already_exists(type_.plural, type_.group, name, terminating=_terminating(existing))
        else:
            raise already_exists(type_.plural, type_.group, name)
        self._check_namespace(call, name)
        self._admission.before_commit(attributes, attempt, None)
        stored = self._pipeline.stored(type_, attempt)
        if call.dry_run:
            stored["metadata"].pop("resourceVersion", None)
            return None, stored
        record = core.create(type_, stored)
        return record, stored

    def _place(self, call: Call, metadata: dict[str, Any]) -> None:
        """The namespace of the body against that of the path."""
        if not call.type.namespaced:
            metadata.pop("namespace", None)
            return
        given = metadata.get("namespace")
        if given and given != call.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = call.namespace

    async def _answer(self, call: Call, record: Record | None, obj: dict[str, Any], status: int) -> HttpResponse:
        if record is not None:
            await self._core.settled()
            return answers.one(call, record.body, status, tables=self._tables)
        served = to_served(call.type, obj)
        served.update(kind=call.type.kind, apiVersion=call.type.api_version)
        return answers.plain(call, served, status, tables=self._tables)

    def _body(self, call: Call) -> bodies.Body:
        return bodies.decode(
            call.request.body,
            call.request.headers.get("content-type"),
            call.type.kind,
            check_duplicates=call.field_validation != "Ignore",
            protobuf=call.type.custom is None,
        )

    # -- update

    async def update(self, call: Call) -> HttpResponse:
        call.form()
        call.dry_run, call.field_validation = write_options(call.query, "UpdateOptions")
        obj = self._pipeline.accept(call, self._body(call))
        metadata = obj["metadata"]
        name = metadata.get("name")
        if not name:
            raise bad_request(
                f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
            )
        if name != call.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        self._place(call, metadata)
        version = given_version(metadata)
        if self._core.get(call.type, call.namespace, call.name) is None:
            if call.type.storage in _CREATED_BY_UPDATE and call.subresource is None and not version:
                record, stored = await self.create_object(call, obj)
                return await self._answer(call, record, stored, 201)
            raise not_found(call.type.plural, call.type.group, call.name)
        if not version and (call.type.custom is not None or call.type.storage in _VERSION_REQUIRED):
            error = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(call.type.plural, call.type.group, call.name, [error])

        def change(_: dict[str, Any]) -> dict[str, Any]:
            return self._pipeline.copy(obj)

        return await self.change(call, change, replace=True)

    # -- patch

    async def patch(self, call: Call) -> HttpResponse:
        call.form()
        kind = bodies.media_type(call.request.headers.get("content-type") or "none")
        if kind == APPLY_PATCH:
            return await self._apply(call)
        accepted = CUSTOM_PATCHES if call.type.custom is not None else (*CUSTOM_PATCHES, STRATEGIC_PATCH)
        if kind not in accepted:
            if call.type.custom is not None:
                raise unsupported_media_type(CUSTOM_PATCHES)
            raise Problem(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        call.dry_run, call.field_validation = write_options(call.query, "PatchOptions")
        patch = self._pipeline.read_patch(call, kind)

        def change(current: dict[str, Any]) -> dict[str, Any]:
            return self._pipeline.patched(call, kind, current, patch)

        return await self.change(call, change)

    async def _apply(self, call: Call) -> HttpResponse:
        call.dry_run, call.field_validation = write_options(call.query, "PatchOptions", apply=True)
        applied = self._pipeline.read_applied(call)
        force = call.query.flag("force")
        if self._core.get(call.type, call.namespace, call.name) is None:
            if call.subresource is not None:
                raise not_found(call.type.plural, call.type.group, call.name)
            uid = applied["metadata"].get("uid")
            if uid:
                raise self._immutable_uid(call, uid)
            obj = self._pipeline.applied(call, None, applied, force=force)
            record, stored = await self.create_object(call, obj, apply=True)
            return await self._answer(call, record, stored, 201)

        def change(current: dict[str, Any]) -> dict[str, Any]:
            return self._pipeline.applied(call, current, applied, force=force)

        return await self.change(call, change, apply=True)

    # -- what all changes share

    async def change(self, call: Call, change: Change, *, replace: bool = False, apply: bool = False) -> HttpResponse:
        """Change the object a request names and answer with it; `change` may be called again when it moved."""
        record, stored = await self.change_object(call, change, replace=replace, apply=apply)
        return await self._answer(call, record, stored, 200)

    async def change_object(
        self, call: Call, change: Change, *, replace: bool = False, apply: bool = False, admitted: bool = False
    ) -> tuple[Record | None, dict[str, Any]]:
        """As `change`, answering (record or None when the answer is not what is stored, the object).

        admitted: admission has seen the request already, in another form.
        """
        type_, core = call.type, self._core
        for _ in range(ATTEMPTS):
            previous = core.get(type_, call.namespace, call.name)
            if previous is None:
                raise not_found(type_.plural, type_.group, call.name)
            outcome = await self._attempt(call, previous, change, replace=replace, apply=apply, admitted=admitted)
            if outcome is not None:
                return outcome
        raise conflict(type_.plural, type_.group, call.name)

    async def _attempt(
        self, call: Call, previous: Record, change: Change, *, replace: bool, apply: bool, admitted: bool
    ) -> tuple[Record | None, dict[str, Any]] | None:
        """One try; None when the object moved during admission and the change may be made again."""
        type_, core, pipeline = call.type, self._core, self._pipeline
        old = pipeline.served(type_, previous.parse())
        obj = change(pipeline.served(type_, previous.parse()))
        warned = len(call.warnings)
        demanded = self._check_versions(call, previous, old, obj, replace=replace)
        if not apply:
            pipeline.default(call, obj)
            obj = pipeline.own_updated(call, old, obj)
        restore_system_fields(old, obj)
        obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        attributes = Attributes.of(call, "UPDATE", call.name, apply=apply)
        if not admitted:
            obj = await self._admission.mutate(attributes, obj, old, call.warnings)
        pipeline.prepare_update(call, obj, old)
        pipeline.validate_update(call, obj, old)
        if not admitted:
            await self._admission.validate(attributes, obj, old, call.warnings)
        if core.get(type_, call.namespace, call.name) is not previous:
            if demanded:
                raise conflict(type_.plural, type_.group, call.name)
            del call.warnings[warned:]
            return None
        self._admission.before_commit(attributes, obj, old)
        stored = pipeline.stored(type_, obj)
        if call.dry_run:
            stored["metadata"]["resourceVersion"] = str(previous.rv)
            return None, stored
        if finished(stored):
            stored["metadata"]["resourceVersion"] = str(previous.rv)
            answer = pipeline.copy(stored)
            core.delete(type_, previous, stored)
            await core.settled()
            return None, answer
        return core.update(type_, stored, previous), stored

    def _check_versions(
        self, call: Call, previous: Record, old: dict[str, Any], obj: dict[str, Any], *, replace: bool
    ) -> bool:
        """The resourceVersion and uid a change demands against those of the object. True when a version is demanded."""
        type_, metadata = call.type, obj["metadata"]
        version = given_version(metadata)
        uid = metadata.get("uid")
        if uid and uid != previous.uid:
            if not replace:
                raise self._immutable_uid(call, uid)
            key = "/registry/" + "/".join(part for part in (type_.plural, call.namespace, call.name) if part)
            raise conflict(
                type_.plural,
                type_.group,
                call.name,
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {previous.uid}",
            )
        if version and version != previous.rv:
            raise conflict(type_.plural, type_.group, call.name)
        return bool(version) and (replace or metadata.get("resourceVersion") != old["metadata"]["resourceVersion"])

    def _immutable_uid(self, call: Call, uid: str) -> Problem:
        error = invalid_value("metadata.uid", uid, "field is immutable")
        return invalid(call.type.kind, call.type.group, call.name, [error])


NamespaceCheck = Callable[[Call, str], None]


def given_version(metadata: dict[str, Any]) -> int:
    """The resourceVersion of a body as a number, 0 when there is none. Raises Problem 500, as a real server does."""
    text = metadata.get("resourceVersion") or "0"
    if not isinstance(text, str) or not text.isascii() or not text.isdigit():
        raise server_error(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def restore_system_fields(old: dict[str, Any], obj: dict[str, Any]) -> None:
    """What no client changes: uid, creation time, and a deletion that has begun."""
    before, metadata = old["metadata"], obj["metadata"]
    metadata.pop("selfLink", None)
    for name in ("uid", "creationTimestamp"):
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in before and metadata.get(name) is None:
            metadata[name] = before[name]
    if metadata.get("deletionTimestamp") is None:
        metadata.pop("deletionTimestamp", None)
    if metadata.get("deletionGracePeriodSeconds") is None:
        metadata.pop("deletionGracePeriodSeconds", None)
    if not metadata.get("generateName") and "generateName" in before:
        metadata["generateName"] = before["generateName"]


def finished(obj: dict[str, Any]) -> bool:
    """Whether a deletion that has begun may end with this version: nothing holds the object any more."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return not (obj.get("kind") == "Namespace" and (obj.get("spec") or {}).get("finalizers"))


def _terminating(record: Record) -> bool:
    return bool(record.parse()["metadata"].get("deletionTimestamp"))
