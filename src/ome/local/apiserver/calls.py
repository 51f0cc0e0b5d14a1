"""One request on its way through the server: what was asked, by whom, of which resource, and what to warn of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ome.local.apiserver import negotiate
from ome.local.apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from ome.local.apiserver.http import HttpRequest, User
from ome.local.apiserver.registry import ResourceType, Subresource
from ome.local.apiserver.routing import Query, Route

VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")


@dataclass(slots=True)
class Call:
    """A request of a resource, after routing, authentication and authorization."""

    request: HttpRequest
    query: Query
    route: Route
    user: User
    type: ResourceType
    subresource: Subresource | None = None
    warnings: list[str] = field(default_factory=list)
    dry_run: bool = False
    field_validation: str = "Warn"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.route.namespace if self.type.namespaced else ""

    @property
    def name(self) -> str:
        return self.route.name

    @property
    def strict(self) -> bool:
        return self.field_validation == "Strict"

    def form(self) -> negotiate.Form:
        """How to answer. Raises Problem 406."""
        accept = self.request.headers.get("accept", "")
        if not accept:
            return negotiate.PLAIN
        return negotiate.choose(accept, protobuf=self.type.custom is None)

    def manager(self) -> str:
        """The field manager: as given, else the User-Agent's name, else `unknown`."""
        given = self.query.get("fieldManager")
        if given:
            return given
        agent = self.request.headers.get("user-agent", "")
        return agent.partition("/")[0][:128] or "unknown"

    def pretty(self) -> bool:
        asked = self.query.get("pretty")
        if asked:
            return asked not in ("0", "false")
        agent = self.request.headers.get("user-agent", "")
        return agent.startswith(("curl", "Wget", "Mozilla/5.0"))


def write_options(query: Query, kind: str, *, apply: bool = False) -> tuple[bool, str]:
    """(dry run, field validation) of a CreateOptions, UpdateOptions or PatchOptions query. Raises Problem 422."""
    errors: list[FieldError] = []
    dry_run = query.all("dryRun")
    if dry_run and dry_run != [""] and any(value != "All" for value in dry_run):
        errors.append(not_supported("dryRun", dry_run, ["All"]))
    validation = query.get("fieldValidation")
    if validation not in VALIDATIONS:
        errors.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    manager = query.get("fieldManager")
    if len(manager.encode()) > 128:
        errors.append(too_long("fieldManager", 128))
    for position, char in enumerate(manager):
        if not char.isprintable():
            detail = f"invalid character U+{ord(char):04X} (at position {position})"
            errors.append(invalid_value("fieldManager", manager, detail))
    if kind == "PatchOptions":
        if apply and not manager:
            errors.append(required("fieldManager", "is required for apply patch"))
        if not apply and "force" in query:
            errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
    if errors:
        raise invalid(kind, "meta.k8s.io", "", errors)
    return bool(dry_run and dry_run != [""]), validation or "Warn"
