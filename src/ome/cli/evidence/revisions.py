"""Runtime revisions read critically: does the ControllerRevision say what its name and labels claim
(spec/runtime-revisions.md 2, 3)?

Pure. Used by `runtime effective`, `runtime history`, `runtime sync` and `instance release-held`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ome.api.canonical import canonical_runtime, runtime_hash, short_hash
from ome.api.keys import CREATED_BY, CREATED_BY_OME, REVISION_HASH, RUNTIME_OF, RUNTIME_OF_KIND, RUNTIME_OF_NAMESPACE
from ome.cli.evidence import objects
from ome.cli.evidence.chains import CLUSTER_SERVING_RUNTIME, SERVING_RUNTIME


class Source(NamedTuple):
    """The runtime a revision is of, as declared: kind, namespace (empty at cluster scope), name."""

    kind: str
    namespace: str
    name: str

    @property
    def short(self) -> str:
        return f"SR/{self.namespace}/{self.name}" if self.kind == SERVING_RUNTIME else f"CSR/{self.name}"

    @property
    def long(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}" if self.namespace else f"{self.kind}/{self.name}"

    @property
    def prefix(self) -> str:
        return f"r-{self.namespace}-{self.name}-" if self.kind == SERVING_RUNTIME else f"cr-{self.name}-"


def declared_source(service: Mapping[str, Any]) -> Source:
    """What revisions of the service's named runtime are named and labelled after: the declared kind, not where it was
    found.
    """
    name = objects.text(service, "spec", "runtime", "name")
    if objects.text(service, "spec", "runtime", "kind") == SERVING_RUNTIME:
        return Source(SERVING_RUNTIME, objects.namespace(service), name)
    return Source(CLUSTER_SERVING_RUNTIME, "", name)


class Revision(NamedTuple):
    """One stored revision: its content's full hash (`""` when the content does not decode) and what is wrong with
    it.
    """

    name: str
    obj: Mapping[str, Any]
    source: Source
    full_hash: str
    disabled: bool
    issues: tuple[str, ...]

    @property
    def hash8(self) -> str:
        return short_hash(self.full_hash)

    @property
    def spec(self) -> Mapping[str, Any]:
        return objects.mapping(self.obj, "data")


def read_revision(obj: Mapping[str, Any], expected: Source, ome_namespace: str) -> Revision:
    """Judges one ControllerRevision against the runtime it should be of."""
    name = objects.name(obj)
    source = Source(
        objects.label(obj, RUNTIME_OF_KIND) or CLUSTER_SERVING_RUNTIME,
        objects.label(obj, RUNTIME_OF_NAMESPACE) or "",
        objects.label(obj, RUNTIME_OF) or "",
    )
    data = objects.get(obj, "data")
    full = _content_hash(data)
    issues = []
    if objects.annotation(obj, CREATED_BY) != CREATED_BY_OME:
        issues.append("RevisionNotOMEManaged")
    if source != expected:
        issues.append("RevisionSourceMismatch")
    stated = objects.label(obj, REVISION_HASH) or ""
    if not objects.is_hash8(stated):
        issues.append("RevisionHashInvalid")
    elif full and stated != short_hash(full):
        issues.append("RevisionHashMismatch")
    if name != f"{source.prefix}{stated}":
        issues.append("RevisionNameMismatch")
    if objects.integer(obj, "revision") != 1:
        issues.append("RevisionOrdinalUnexpected")
    issues += _payload_issues(data, full)
    if not objects.uid(obj) or objects.namespace(obj) != ome_namespace:
        issues.append("RevisionIdentityMismatch")
    disabled = objects.get(data, "disabled") is True
    if disabled:
        issues.append("RevisionDisabled")
    return Revision(name, obj, source, full, disabled, tuple(issues))


def _content_hash(data: Any) -> str:
    if not isinstance(data, Mapping):
        return ""
    try:
        return runtime_hash(dict(data))
    except (AttributeError, KeyError, TypeError, ValueError):
        # A payload of the wrong shape: reported as malformed by the caller.
        return ""


def _payload_issues(data: Any, full: str) -> list[str]:
    if not full:
        return ["RevisionPayloadMalformed"]
    found = []
    if "apiVersion" in data and "kind" in data:
        # A whole object where the bare spec belongs.
        found.append("RevisionDataObjectPresent")
    canonical = json.loads(canonical_runtime(dict(data)))
    if objects.encoded(data) != objects.encoded(canonical):
        found.append("RevisionPayloadNonCanonical")
    return found


def with_group_issues(revisions: Sequence[Revision]) -> list[Revision]:
    """Adds what only shows beside the others: repeated names, repeated contents, short hashes shared by different
    contents.
    """
    names = Counter(revision.name for revision in revisions)
    contents = Counter(revision.full_hash for revision in revisions if revision.full_hash)
    short: dict[str, set[str]] = {}
    uids: dict[str, set[str]] = {}
    for revision in revisions:
        uids.setdefault(revision.name, set()).add(objects.uid(revision.obj))
        if revision.full_hash:
            short.setdefault(revision.hash8, set()).add(revision.full_hash)
    found = []
    for revision in revisions:
        issues = list(revision.issues)
        if names[revision.name] > 1:
            issues.append("ConflictingRevision" if len(uids[revision.name]) > 1 else "DuplicateRevision")
        elif revision.full_hash and contents[revision.full_hash] > 1:
            issues.append("DuplicateRevisionContent")
        if revision.full_hash and len(short[revision.hash8]) > 1:
            issues.append("RevisionHashCollision")
        found.append(revision._replace(issues=tuple(issues)))
    return found


def relation(live_hash: str, other_hash: str) -> str:
    """Full hashes compared; equal only in their short forms is Ambiguous (spec/runtime-revisions.md section 3)."""
    if not live_hash or not other_hash:
        return "Unknown"
    if live_hash == other_hash:
        return "Equal"
    return "Ambiguous" if short_hash(live_hash) == short_hash(other_hash) else "Different"
