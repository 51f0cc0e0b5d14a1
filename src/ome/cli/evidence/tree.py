"""`runtime tree`: what a runtime inherits, who inherits from it, and which services name any of them.

spec/cli-runtime-and-wait.md section 2.3. Pure: complete listings in, contexts of paths out, and their lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ome.cli.evidence import objects
from ome.cli.evidence.chains import CLUSTER_SERVING_RUNTIME, SERVING_RUNTIME, Chain, Member, follow
from ome.cli.output.text import bounded_name, neutralise

WIDTH = 80
MINIMUM_NAME = 24


class Service(NamedTuple):
    namespace: str
    name: str


class Path(NamedTuple):
    """One head: its chain, root first, and the services that name it."""

    chain: Chain
    users: tuple[Service, ...]


class Context(NamedTuple):
    """`namespace` is empty in the cluster context."""

    namespace: str
    paths: tuple[Path, ...]


class Unattributed(NamedTuple):
    service: Service
    state: str
    reason: str
    declared: str = ""


class Listing(NamedTuple):
    """One list that was read."""

    kind: str
    scope: str
    status: str
    pages: int
    items: int


class Tree(NamedTuple):
    target: Member
    contexts: tuple[Context, ...]
    unattributed: tuple[Unattributed, ...]
    snapshot: str
    listings: tuple[Listing, ...]
    warnings: tuple[str, ...]


Known = Mapping[tuple[str, str], Member]
"""Runtimes by (namespace, name); the namespace is empty for a ClusterServingRuntime."""


def known_runtimes(members: Iterable[Member]) -> dict[tuple[str, str], Member]:
    return {(entry.namespace, entry.name): entry for entry in members}


def chain_of(head: Member, known: Known) -> Chain:
    """Parents of a ServingRuntime are looked up in its namespace first, all the way up."""

    def lookup(child: Member, name: str) -> Member | None:
        own = known.get((head.namespace, name)) if head.namespace else None
        return own or known.get(("", name))

    return follow(head, lookup)


def attributed(service: Mapping[str, Any], known: Known) -> Member | None:
    """The runtime a service names, as its declared kind says."""
    name, namespace = objects.text(service, "spec", "runtime", "name"), objects.namespace(service)
    own, cluster = known.get((namespace, name)), known.get(("", name))
    kind = objects.text(service, "spec", "runtime", "kind")
    if kind == SERVING_RUNTIME:
        return own
    if kind == CLUSTER_SERVING_RUNTIME:
        return cluster or own
    return own or cluster


def _users(services: Sequence[Mapping[str, Any]], known: Known) -> dict[tuple[str, str], list[Service]]:
    found: dict[tuple[str, str], list[Service]] = {}
    for service in services:
        runtime = attributed(service, known)
        if runtime is not None:
            entry = Service(objects.namespace(service), objects.name(service))
            found.setdefault((runtime.namespace, runtime.name), []).append(entry)
    return {key: sorted(set(entries)) for key, entries in found.items()}


def _unattributed(services: Sequence[Mapping[str, Any]], known: Known) -> list[Unattributed]:
    seen: set[Service] = set()
    found = []
    for service in services:
        entry = Service(objects.namespace(service), objects.name(service))
        name = objects.text(service, "spec", "runtime", "name")
        if entry in seen:
            found.append(Unattributed(entry, "Ambiguous", "DuplicateInferenceService"))
        elif not name:
            found.append(Unattributed(entry, "Unresolved", "AutomaticSelection"))
        elif not objects.is_subdomain(name):
            found.append(Unattributed(entry, "Invalid", "InvalidRuntimeName"))
        elif attributed(service, known) is None:
            found.append(Unattributed(entry, "Unresolved", "RuntimeNotFound", name))
        seen.add(entry)
    return sorted(found)


def tree(
    target: Member,
    members: Sequence[Member],
    services: Sequence[Mapping[str, Any]],
    listings: Sequence[Listing],
    *,
    show_unattributed: bool,
) -> Tree:
    """Every path that ends at the target or at a runtime inheriting from it, by context."""
    known = known_runtimes(members)
    users = _users(services, known)
    paths: dict[str, list[Path]] = {target.namespace: []}
    for entry in sorted(members, key=lambda m: (m.namespace, m.name != target.name, m.name)):
        chain = chain_of(entry, known)
        if any((m.namespace, m.name) == (target.namespace, target.name) for m in chain.members):
            mine = tuple(users.get((entry.namespace, entry.name), ()))
            paths.setdefault(entry.namespace, []).append(Path(chain, mine))
    contexts = tuple(Context(namespace, tuple(found)) for namespace, found in sorted(paths.items()))
    partial = any(listing.status != "Complete" for listing in listings)
    warnings = ["PartialData"] if partial else []
    if any(listing.status == "Unavailable" for listing in listings):
        warnings.append("SourceUnavailable")
    if any(listing.status == "Truncated" for listing in listings):
        warnings.append("Truncated")
    unattributed = tuple(_unattributed(services, known)) if show_unattributed else ()
    snapshot = "Partial" if partial else "Complete"
    return Tree(target, contexts, unattributed, snapshot, tuple(listings), tuple(warnings))


# -- lines -------------------------------------------------------------------------------------------------------------


def _fitted(prefix: str, name: str, suffix: str, wide: bool) -> str:
    """One line; a name too long for it is shortened, unless the output is wide."""
    room = max(WIDTH - len(prefix) - len(suffix), MINIMUM_NAME)
    return prefix + (name if wide else bounded_name(name, room)) + suffix


def _split(head: str, tail: str, wide: bool) -> list[str]:
    """A long line's tail goes to an indented line of its own."""
    whole = f"{head} {tail}"
    return [whole] if wide or len(whole) <= WIDTH else [head, f"  {tail}"]


def _runtime_name(entry: Member, context: Context) -> str:
    return f"{entry.kind}/{entry.name}" if context.namespace or not entry.namespace else entry.long


def _path_lines(path: Path, context: Context, target: Member, wide: bool) -> list[str]:
    lines = [_fitted("Head: ", _runtime_name(path.chain.head, context), "", wide)]
    for depth, entry in enumerate(path.chain.members):
        prefix = "    " * (depth - 1) + "`-- " if depth else ""
        selected = " [selected]" if (entry.namespace, entry.name) == (target.namespace, target.name) else ""
        lines.append(_fitted(prefix, _runtime_name(entry, context), selected, wide))
    indent = "    " * (len(path.chain.members) - 1)
    for number, user in enumerate(path.users):
        branch = "`-- " if number == len(path.users) - 1 else "|-- "
        name = user.name if context.namespace else f"{user.namespace}/{user.name}"
        lines.append(_fitted(indent + branch, f"InferenceService/{name}", "", wide))
    if path.chain.issue:
        chain = path.chain
        lines += _split(f"Issue: {chain.issue}", f"subject={chain.subject} parent={chain.parent}", wide)
        lines.append(_fitted("Issue path: ", " -> ".join(chain.path), "", wide))
    return lines


def _unattributed_lines(found: Sequence[Unattributed]) -> list[str]:
    lines = ["Unattributed users (not attributed to runtime tree):"]
    for entry in found:
        name = f"InferenceService/{entry.service.namespace}/{entry.service.name}"
        lines.append(_fitted("  [not attributed] ", name, "", False))
        lines.append(f"  state={entry.state} reason={entry.reason}")
        if entry.declared:
            lines.append(_fitted("  declared runtime=", entry.declared, "", False))
    return lines if found else [*lines, "  none observed"]


def lines(found: Tree, *, wide: bool, show_unattributed: bool) -> list[str]:
    """The printed tree, line by line, safe for a terminal."""
    text = ["RUNTIME TREE", _fitted("Target: ", found.target.long, "", wide)]
    for context in found.contexts:
        scope = f"Namespaced/{context.namespace}" if context.namespace else "Cluster"
        text.append(f"Context: {scope} (resolution: Complete)")
        for path in context.paths:
            text += _path_lines(path, context, found.target, wide)
    if show_unattributed:
        text += _unattributed_lines(found.unattributed)
    text.append(f"Snapshot: {found.snapshot}")
    for listing in found.listings:
        tail = f"status={listing.status} pages={listing.pages} items={listing.items}"
        text += _split(f"Collection: {listing.kind} scope={listing.scope}", tail, wide)
    text += [f"Warning: {warning}" for warning in found.warnings]
    return [neutralise(line) for line in text]


def _member_content(entry: Member) -> dict[str, Any]:
    return {"kind": entry.kind, "name": entry.name} | ({"namespace": entry.namespace} if entry.namespace else {})


def content(found: Tree, *, show_unattributed: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "target": _member_content(found.target),
        "snapshot": found.snapshot,
        "contexts": [
            {
                "scope": "Namespaced" if context.namespace else "Cluster",
                **({"namespace": context.namespace} if context.namespace else {}),
                "resolution": "Complete",
                "paths": [_path_content(path) for path in context.paths],
            }
            for context in found.contexts
        ],
        "collections": [listing._asdict() for listing in found.listings],
    }
    if show_unattributed:
        document["unattributedUsers"] = [
            {
                "namespace": entry.service.namespace,
                "name": entry.service.name,
                "state": entry.state,
                "reason": entry.reason,
                **({"declaredRuntime": entry.declared} if entry.declared else {}),
            }
            for entry in found.unattributed
        ]
    return document


def _path_content(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = {
        "head": _member_content(path.chain.head),
        "chain": [_member_content(entry) for entry in path.chain.members],
        "users": [user._asdict() for user in path.users],
    }
    if path.chain.issue:
        document["issue"] = {
            "code": path.chain.issue,
            "subject": path.chain.subject,
            "parent": path.chain.parent,
            "path": path.chain.path,
        }
    return document
