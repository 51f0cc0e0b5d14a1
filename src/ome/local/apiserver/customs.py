"""Custom resources come and go with their definitions: names accepted, endpoints served, instances cleaned up.

Called after every commit of a definition. The rules of definitions themselves are in `definitions/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ome.local.apiserver.core import Core
from ome.local.apiserver.deletion import CRD_FINALIZER
from ome.local.apiserver.encoding import encode, record_of
from ome.local.apiserver.errors import aggregate
from ome.local.apiserver.registry import (
    CUSTOM_VERBS,
    SCALE,
    CustomVersion,
    ResourceType,
    Subresource,
    version_priority,
)
from ome.local.apiserver.store import Event, EventType, Record
from ome.local.apiserver.writes import finished

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
Object = dict[str, Any]
Remove = Callable[[ResourceType, Record, str], None]


def served_types(definition: dict[str, Any]) -> list[ResourceType]:
    """The resource types that an established definition serves, preferred version first."""
    status = definition.get("status") or {}
    if not _condition(status, "Established"):
        return []
    spec = definition["spec"]
    names, group = status.get("acceptedNames") or {}, spec["group"]
    storage = next((v["name"] for v in spec["versions"] if v.get("storage")), spec["versions"][0]["name"])
    out = []
    for version in sorted(spec["versions"], key=lambda v: version_priority(v["name"])):
        if not version.get("served"):
            continue
        out.append(_type(definition, names, group, version, storage))
    return out


def _type(
    definition: dict[str, Any], names: dict[str, Any], group: str, version: dict[str, Any], storage: str
) -> ResourceType:
    spec, metadata = definition["spec"], definition["metadata"]
    given = version.get("subresources") or {}
    subresources: dict[str, Subresource] = {}
    if "status" in given:
        subresources["status"] = Subresource("status")
    if "scale" in given:
        subresources["scale"] = SCALE
    selectable = tuple(f["jsonPath"].removeprefix(".") for f in version.get("selectableFields") or ())
    deprecation = ""
    if version.get("deprecated"):
        deprecation = version.get("deprecationWarning") or f"{group}/{version['name']} {names['kind']} is deprecated"
    return ResourceType(
        group=group,
        version=version["name"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        kind=names["kind"],
        namespaced=spec.get("scope") == "Namespaced",
        verbs=CUSTOM_VERBS,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=subresources,
        storage=f"{names['plural']}.{group}",
        storage_api_version=f"{group}/{storage}",
        list_kind=names.get("listKind") or f"{names['kind']}List",
        selectable=selectable,
        custom=CustomVersion(
            version["name"],
            (version.get("schema") or {}).get("openAPIV3Schema") or {},
            tuple(version.get("additionalPrinterColumns") or ()),
            given.get("scale"),
            "status" in given,
            selectable,
            deprecation,
            _storage_schema(spec["versions"], version["name"]),
        ),
        definition=metadata["name"],
        terminating=bool(metadata.get("deletionTimestamp")),
    )


def _storage_schema(versions: Iterable[Object], served: str) -> Object | None:
    """The schema of the storage version, unless it is the served one."""
    for version in versions:
        if version.get("storage") and version["name"] != served:
            schema: Object = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            return schema
    return None


def _stored_differently(before: Iterable[ResourceType], now: Iterable[ResourceType]) -> bool:
    """Whether the storage version or its schema changed."""

    def stored(types: Iterable[ResourceType]) -> tuple[str, Any]:
        listed = list(types)
        type_ = next((t for t in listed if t.stored_as_served), listed[0])
        return type_.storage_api_version, type_.custom.schema if type_.custom is not None else None

    return stored(before) != stored(now)


def _condition(status: dict[str, Any], type_: str) -> bool:
    return any(c.get("type") == type_ and c.get("status") == "True" for c in status.get("conditions") or ())


class Customs:
    """Keeps the registry in step with the stored definitions, and cleans up after those that go."""

    def __init__(
        self,
        core: Core,
        remove: Remove,
        end_watches: Callable[[str], None],
        decode: Callable[[ResourceType, Object], Object],
    ) -> None:
        self._core = core
        self._decode = decode
        self._remove = remove
        self._end_watches = end_watches
        # Kept apart, for definitions are large: each new one is compared with all others.
        self._called: dict[str, Object] = {}
        found = core.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        if found is None:
            raise AssertionError("definitions are a built-in kind")
        self._type = found

    def load(self) -> None:
        """Serve what is stored, at start."""
        for record in self._core.store.collection(DEFINITIONS).all():
            obj = record.parse()
            self._called[record.name] = _called(obj)
            self._serve(obj)

    def hear(self, resource: str, event: Event) -> None:
        """After a commit: of a definition, or of the last instance of one that is going."""
        if resource == DEFINITIONS:
            if event.type is EventType.DELETED:
                self._called.pop(event.record.name, None)
                self._end(event.record)
                self._name_others()
            else:
                self._follow(event.record.name)
        elif event.type is EventType.DELETED and "." in resource:
            for type_ in self._core.registry.custom_types(resource):
                if type_.terminating:
                    self._clean_up(resource)
                    break

    def _others(self, name: str) -> list[Object]:
        """What the other definitions are called."""
        return [called for other, called in self._called.items() if other != name]

    def _name_others(self) -> None:
        """Names that went free may be wanted by other definitions."""
        for record in self._core.store.collection(DEFINITIONS).all():
            if b'"NotAccepted"' in record.body or b'"status":"False"' in record.body:
                self._follow(record.name)

    def _follow(self, name: str) -> None:
        record = self._core.get(self._type, "", name)
        if record is None:
            return
        obj = record.parse()
        self._called[name] = _called(obj)
        accepted = accept(obj, self._others(name), self._core.now())
        if accepted.get("status") != obj.get("status"):
            self._core.update(self._type, accepted, record)
            return
        self._serve(obj)
        if obj["metadata"].get("deletionTimestamp"):
            self._clean_up(name)

    def _serve(self, obj: dict[str, Any]) -> None:
        name = obj["metadata"]["name"]
        before = self._core.registry.custom_types(name)
        types = served_types(obj)
        self._core.registry.set_custom(name, types)
        if types and before and _stored_differently(before, types):
            self._rewrite(types, before)
        if not types:
            self._end_watches(name)

    def _rewrite(self, types: Iterable[ResourceType], before: Iterable[ResourceType]) -> None:
        """Show stored objects as a changed definition has them: its storage version, its fields, its defaults.

        No event tells of it, as none does on a real server, where the change shows when an object is read.
        """
        served = list(types)
        type_ = next((t for t in served if t.stored_as_served), served[0])
        moved = next(iter(before)).storage_api_version != type_.storage_api_version
        collection = self._core.store.collection(type_.storage)
        for record in collection.all():
            obj = record.parse()
            obj["apiVersion"] = type_.storage_api_version
            if type_.stored_as_served:
                obj = self._decode(type_, obj)
            body = encode(obj, type_.storage_api_version, type_.kind, custom=True)
            self._core.store.rewrite(type_.storage, record_of(type_, obj, body, record.rv))
        if not moved:
            return
        while collection.events:
            collection.forget_oldest()
        collection.forgotten = self._core.store.revision

    def _end(self, record: Record) -> None:
        self._core.registry.set_custom(record.name, ())
        self._end_watches(record.name)

    def _clean_up(self, name: str) -> None:
        """Delete the instances of a definition that goes; when none is left take off its finalizer."""
        record = self._core.get(self._type, "", name)
        if record is None:
            return
        obj = record.parse()
        metadata = obj["metadata"]
        if CRD_FINALIZER not in (metadata.get("finalizers") or []):
            return
        types = self._core.registry.custom_types(name)
        instances = self._core.store.collection(name).all()
        if types and instances:
            if self._set_terminating(
                obj, record, "InstanceDeletionInProgress", "CustomResource deletion is in progress"
            ):
                return
            for instance in instances:
                current = self._core.get(types[0], instance.namespace, instance.name)
                if current is not None and b'"deletionTimestamp"' not in current.body:
                    self._remove(types[0], current, "Background")
            if self._core.store.collection(name).all():
                return
        current = self._core.get(self._type, "", name)
        if current is None:
            return
        obj = current.parse()
        metadata = obj["metadata"]
        metadata["finalizers"] = [f for f in metadata.get("finalizers") or [] if f != CRD_FINALIZER]
        if not metadata["finalizers"]:
            del metadata["finalizers"]
        if finished(obj):
            self._core.delete(self._type, current, obj)
        else:
            self._core.update(self._type, obj, current)

    def _set_terminating(self, obj: dict[str, Any], record: Record, reason: str, message: str) -> bool:
        """Write the reason of the Terminating condition. True when that was news (the commit leads back here)."""
        for condition in obj.get("status", {}).get("conditions") or ():
            if condition.get("type") == "Terminating" and condition.get("reason") != reason:
                condition.update(reason=reason, message=message, lastTransitionTime=self._core.now())
                self._core.update(self._type, obj, record)
                return True
        return False


def _called(obj: Object) -> Object:
    """What names a definition has been given in which group, as `accept` compares them."""
    return {
        "spec": {"group": obj["spec"].get("group", "")},
        "status": {"acceptedNames": obj.get("status", {}).get("acceptedNames") or {}},
    }


_USED: Final = (("plural", "PluralConflict"), ("singular", "SingularConflict"))


def accept(obj: Object, others: Iterable[Object], now: str) -> Object:
    """A definition with the names it gets beside those that others of its group have, and whether it serves."""
    spec, status = obj["spec"], dict(obj.get("status") or {})
    wanted, accepted = spec["names"], dict(status.get("acceptedNames") or {})
    resources, kinds = _taken(others, spec["group"])
    names: Object = {"plural": accepted.get("plural", ""), "kind": accepted.get("kind", "")}
    if accepted.get("singular"):
        names["singular"] = accepted["singular"]
    conflict: tuple[str, str] | None = None

    def take(field: str, used: set[str], reason: str) -> None:
        nonlocal conflict
        value = wanted.get(field)
        if value and value != accepted.get(field) and value in used:
            conflict = (reason, f'"{value}" is already in use')
        elif value:
            names[field] = value

    for field, reason in _USED:
        take(field, resources, reason)
    short = wanted.get("shortNames") or []
    clashes = [n for n in short if n in resources and n not in (accepted.get("shortNames") or ())]
    if clashes:
        conflict = ("ShortNamesConflict", aggregate([f'"{name}" is already in use' for name in clashes]))
    elif short:
        names["shortNames"] = short
    take("kind", kinds, "KindConflict")
    take("listKind", kinds, "ListKindConflict")
    if wanted.get("categories"):
        names["categories"] = wanted["categories"]
    conditions = _naming_conditions(status, conflict, now)
    return {**obj, "status": {**status, "conditions": conditions, "acceptedNames": names}}


def _taken(others: Iterable[Object], group: str) -> tuple[set[str], set[str]]:
    """(resource names, kinds) that other definitions of a group have been given."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"].get("group") != group:
            continue
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _naming_conditions(status: Object, conflict: tuple[str, str] | None, now: str) -> list[Object]:
    if conflict is None:
        accepted = ("NamesAccepted", "True", "NoConflicts", "no conflicts found")
        established = ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        accepted = ("NamesAccepted", "False", *conflict)
        established = ("Established", "False", "NotAccepted", "not all names are accepted")
    before = {c.get("type"): c for c in status.get("conditions") or ()}
    if (before.get("Established") or {}).get("status") == "True":
        established = ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    out: list[Object] = []
    for type_, state, reason, message in (accepted, established):
        old = before.pop(type_, None)
        since = old.get("lastTransitionTime") if old is not None and old.get("status") == state else now
        out.append({"type": type_, "status": state, "lastTransitionTime": since, "reason": reason, "message": message})
    return [*out, *before.values()]
