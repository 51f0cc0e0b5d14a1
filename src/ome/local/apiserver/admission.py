"""Admission: what may change or refuse a write between decoding and storing.

Built-in plug-ins (`plugins.py`) run first, then the webhooks' dispatcher. Plug-ins are synchronous; only webhooks
await.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ome.local.apiserver.calls import Call
from ome.local.apiserver.http import User
from ome.local.apiserver.registry import ResourceType

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is about to happen. operation: CREATE, UPDATE, DELETE or CONNECT. options: the options object, whole."""

    operation: str
    type: ResourceType
    subresource: str
    namespace: str
    name: str
    user: User
    dry_run: bool
    options: Object

    @classmethod
    def of(cls, call: Call, operation: str, name: str, *, apply: bool = False) -> Attributes:
        kind = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}[operation]
        if call.route.verb == "patch":
            kind = "CreateOptions" if operation == "CREATE" else "UpdateOptions"
        options: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if call.dry_run:
            options["dryRun"] = ["All"]
        if call.query.get("fieldManager"):
            options["fieldManager"] = call.query.get("fieldManager")
        if call.query.get("fieldValidation"):
            options["fieldValidation"] = call.query.get("fieldValidation")
        options.update(call.options)
        subresource = call.subresource.name if call.subresource is not None else ""
        return cls(operation, call.type, subresource, call.namespace, name, call.user, call.dry_run, options)


class Plugin(Protocol):
    """A built-in admission plug-in. It changes `obj` in place; raises Problem to refuse. `old` is None on CREATE."""

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None: ...

    def validate(self, attributes: Attributes, obj: Object, old: Object | None) -> None: ...

    def before_commit(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        """The last word before an object is stored; nothing awaits between this and the commit."""


class Hooks(Protocol):
    """The dispatcher of webhooks. Warnings are appended; a refusal is a Problem."""

    async def mutate(
        self, attributes: Attributes, obj: Object | None, old: Object | None, warnings: list[str]
    ) -> Object | None: ...

    async def validate(
        self, attributes: Attributes, obj: Object | None, old: Object | None, warnings: list[str]
    ) -> None: ...


class Admission:
    """The chain of plug-ins and webhooks."""

    def __init__(self, plugins: Sequence[Plugin] = (), hooks: Hooks | None = None) -> None:
        self._plugins = tuple(plugins)
        self._hooks = hooks

    async def mutate(self, attributes: Attributes, obj: Object, old: Object | None, warnings: list[str]) -> Object:
        for plugin in self._plugins:
            plugin.mutate(attributes, obj, old)
        if self._hooks is None:
            return obj
        changed = await self._hooks.mutate(attributes, obj, old, warnings)
        return changed if changed is not None else obj

    async def validate(self, attributes: Attributes, obj: Object, old: Object | None, warnings: list[str]) -> None:
        for plugin in self._plugins:
            plugin.validate(attributes, obj, old)
        if self._hooks is not None:
            await self._hooks.validate(attributes, obj, old, warnings)

    async def admit_delete(self, attributes: Attributes, old: Object, warnings: list[str]) -> None:
        """A deletion: there is no new object."""
        if self._hooks is None:
            return
        await self._hooks.mutate(attributes, None, old, warnings)
        await self._hooks.validate(attributes, None, old, warnings)

    def before_commit(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        for plugin in self._plugins:
            plugin.before_commit(attributes, obj, old)
