"""Deletion: preconditions, grace for pods, finalizers, propagation policies, and whole collections.

What follows from a deletion (dependents, namespace contents, instances of a definition) is `garbage.py`,
`namespaces.py` and `customs.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ome.local.apiserver import answers, bodies
from ome.local.apiserver.admission import Admission, Attributes
from ome.local.apiserver.answers import TableMaker
from ome.local.apiserver.calls import Call
from ome.local.apiserver.core import Core
from ome.local.apiserver.errors import (
    FieldError,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_found,
    not_supported,
)
from ome.local.apiserver.http import HttpResponse
from ome.local.apiserver.pipeline import typed
from ome.local.apiserver.reads import Reads
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.store import Record
from ome.local.apiserver.versions import to_served

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
POLICIES: Final = ("Foreground", "Background", "Orphan")
DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
CRD_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"

_ANSWERED_WITH_OBJECT: Final = frozenset(
    {
        "pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims", "resourcequotas",
        "podtemplates",
    }
)  # fmt: skip


@dataclass(slots=True)
class DeleteOptions:
    """What a deletion asks for. grace: seconds or None. policy: a propagation policy or nothing."""

    grace: int | None = None
    policy: str = ""
    uid: str = ""
    version: str = ""
    dry_run: bool = False
    raw: dict[str, Any] = field(default_factory=dict)


def read_options(call: Call) -> DeleteOptions:
    """DeleteOptions from the body, else from the query. Raises Problem 400 or 422."""
    query = call.query
    if call.request.body.strip():
        body = bodies.decode(
            call.request.body, call.request.headers.get("content-type"), "DeleteOptions", check_duplicates=False
        )
        raw = body.value
        kind = raw.get("kind")
        if kind not in (None, "", "DeleteOptions"):
            version = raw.get("apiVersion") or "v1"
            raise bad_request(f'no kind "{kind}" is registered for version "{version}"')
        raw = typed(call.request.body, call.request.headers.get("content-type"), "DeleteOptions", DELETE_OPTIONS)
        raw.pop("metadata")
    else:
        raw = {}
        if query.get("gracePeriodSeconds"):
            raw["gracePeriodSeconds"] = query.integer("gracePeriodSeconds")
        if query.get("propagationPolicy"):
            raw["propagationPolicy"] = query.get("propagationPolicy")
        if "orphanDependents" in query:
            raw["orphanDependents"] = query.flag("orphanDependents")
    if "dryRun" in query and not raw.get("dryRun"):
        raw["dryRun"] = query.all("dryRun")
    return _checked(raw)


def _checked(raw: dict[str, Any]) -> DeleteOptions:
    errors: list[FieldError] = []
    policy, orphan = raw.get("propagationPolicy"), raw.get("orphanDependents")
    if policy is not None and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid_value("propagationPolicy", policy, detail))
    if policy is not None and policy not in POLICIES:
        errors.append(not_supported("propagationPolicy", policy, [*POLICIES, "nil"]))
    dry_run = raw.get("dryRun") or []
    if not isinstance(dry_run, list) or any(value != "All" for value in dry_run):
        errors.append(not_supported("dryRun", dry_run, ["All"]))
    if errors:
        raise invalid("DeleteOptions", "meta.k8s.io", "", errors)
    grace = raw.get("gracePeriodSeconds")
    preconditions = raw.get("preconditions")
    demanded = preconditions if isinstance(preconditions, dict) else {}
    if orphan is not None and policy is None:
        policy = "Orphan" if orphan else "Background"
    return DeleteOptions(
        grace,
        policy or "",
        str(demanded.get("uid") or ""),
        str(demanded.get("resourceVersion") or ""),
        bool(dry_run),
        raw,
    )


class Deletion:
    """delete and deletecollection."""

    def __init__(self, core: Core, reads: Reads, admission: Admission, tables: TableMaker) -> None:
        self._core = core
        self._reads = reads
        self._admission = admission
        self._tables = tables

    async def delete(self, call: Call) -> HttpResponse:
        call.form()
        options = read_options(call)
        call.dry_run = options.dry_run
        type_ = call.type
        record = self._core.get(type_, call.namespace, call.name)
        if type_.storage == "namespaces" and call.name in IMMORTAL:
            raise forbidden("namespaces", "", call.name, "this namespace may not be deleted")
        if record is None:
            raise not_found(type_.plural, type_.group, call.name)
        gone, obj = await self._delete(call, record, options)
        await self._core.settled()
        shows_object = not gone or type_.storage in _ANSWERED_WITH_OBJECT
        if shows_object:
            served = to_served(type_, obj)
            return answers.plain(call, served, 200, tables=self._tables)
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {
                "name": call.name,
                **({"group": type_.group} if type_.group else {}),
                "kind": type_.plural,
                "uid": record.uid,
            },
        }
        return answers.plain(call, status)

    async def collection(self, call: Call) -> HttpResponse:
        """Delete everything a request selects; answers with the list as it was."""
        call.form()
        options = read_options(call)
        call.dry_run = options.dry_run
        records = self._reads.selected(call)
        for record in records:
            current = self._core.get(call.type, record.namespace, record.name)
            if current is None or current.uid != record.uid:
                continue
            await self._delete(call, current, options)
        await self._core.settled()
        metadata = answers.list_metadata(call.type, str(self._core.store.revision))
        return answers.many(call, [record.body for record in records], metadata, tables=self._tables)

    async def _delete(self, call: Call, record: Record, options: DeleteOptions) -> tuple[bool, dict[str, Any]]:
        """(whether it is gone, the object as it was last)."""
        type_, core = call.type, self._core
        self._check_preconditions(call, record, options)
        call.options = {key: value for key, value in options.raw.items() if key not in ("kind", "apiVersion")}
        attributes = Attributes.of(call, "DELETE", record.name)
        await self._admission.admit_delete(attributes, to_served(type_, record.parse()), call.warnings)
        current = core.get(type_, record.namespace, record.name)
        if current is None:
            raise not_found(type_.plural, type_.group, record.name)
        if current is not record:
            self._check_preconditions(call, current, options)
        return self.remove(type_, current, options)

    def _check_preconditions(self, call: Call, record: Record, options: DeleteOptions) -> None:
        kind, group = call.type.kind, call.type.group
        if options.uid and options.uid != record.uid:
            message = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({record.uid}). "
                "The object might have been deleted and then recreated"
            )
            raise conflict(kind, group, record.name, message)
        if options.version and options.version != str(record.rv):
            message = (
                f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in "
                f"record ({record.rv}). The object might have been modified"
            )
            raise conflict(kind, group, record.name, message)

    def remove(self, type_: ResourceType, record: Record, options: DeleteOptions) -> tuple[bool, dict[str, Any]]:
        """Mark or remove one object, synchronously."""
        core = self._core
        obj = record.parse()
        changed, at_once = self._mark(type_.storage, obj, options)
        held = bool(obj["metadata"].get("finalizers"))
        if at_once and not held:
            if not options.dry_run:
                core.delete(type_, record, self._last(obj))
            return True, obj
        if changed and not options.dry_run:
            core.update(type_, obj, record)
        return False, obj

    def _last(self, obj: dict[str, Any]) -> dict[str, Any]:
        return {**obj, "metadata": dict(obj["metadata"])}

    def _mark(self, storage: str, obj: dict[str, Any], options: DeleteOptions) -> tuple[bool, bool]:
        """Write into `obj` what a deletion writes. (whether anything changed, whether it may go at once)."""
        metadata = obj["metadata"]
        finalizers = _finalizers(metadata.get("finalizers") or [], options.policy)
        changed = finalizers != (metadata.get("finalizers") or [])
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        if storage == "namespaces":
            return self._mark_namespace(obj) or changed, not (obj.get("spec") or {}).get("finalizers")
        if storage == "customresourcedefinitions.apiextensions.k8s.io":
            return self._mark_definition(obj) or changed, False
        if storage == "pods":
            marked, at_once = self._mark_pod(obj, options.grace)
            return marked or changed, at_once
        if finalizers:
            return self._set_deleted(metadata, 0) or changed, True
        return changed, True

    def _set_deleted(self, metadata: dict[str, Any], grace: int) -> bool:
        """Set the deletion time, once; a shorter grace period shortens it. True when something changed."""
        before = metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and (before is None or grace >= before):
            return False
        if not metadata.get("deletionTimestamp") and metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = self._core.later(grace)
        metadata["deletionGracePeriodSeconds"] = grace
        return True

    def _mark_pod(self, obj: dict[str, Any], grace: int | None) -> tuple[bool, bool]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        if grace is None:
            given = spec.get("terminationGracePeriodSeconds")
            grace = given if isinstance(given, int) else 30
        if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
            grace = 0
        if grace < 0:
            grace = 1
        changed = self._set_deleted(obj["metadata"], grace)
        return changed, obj["metadata"].get("deletionGracePeriodSeconds") == 0

    def _mark_namespace(self, obj: dict[str, Any]) -> bool:
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            return False
        metadata["deletionTimestamp"] = self._core.now()
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return True

    def _mark_definition(self, obj: dict[str, Any]) -> bool:
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            return False
        if CRD_FINALIZER not in metadata.setdefault("finalizers", []):
            metadata["finalizers"].append(CRD_FINALIZER)
        self._set_deleted(metadata, 0)
        status = obj.setdefault("status", {})
        conditions = [c for c in status.get("conditions") or [] if c.get("type") != "Terminating"]
        conditions.append(
            {
                "type": "Terminating",
                "status": "True",
                "lastTransitionTime": self._core.now(),
                "reason": "InstanceDeletionPending",
                "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            }
        )
        status["conditions"] = conditions
        return True


def _finalizers(existing: list[str], policy: str) -> list[str]:
    """The finalizers after a deletion with this policy: at most one of the garbage collector's own."""
    wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(policy, "")
    if not policy:
        return existing
    kept = [name for name in existing if name not in (ORPHAN, FOREGROUND)]
    return [*kept, wanted] if wanted else kept
