"""A runtime by the name and kind a service gives: lookup order, inheritance, texts (`spec/serving-runtimes.md
section 4`).

Pure but for a memo of merged specs and hashes: a thousand services of one runtime must not merge and hash it a
thousand times. Called by `ome.services`, `ome.omenative` (standalone replicas), admission and the command line.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from ome.api.canonical import canonical_runtime, short_hash
from ome.runtimes.inheritance import Chain, resolve_chain
from ome.runtimes.reading import Runtime, RuntimeKind, RuntimeReader

_REMEMBERED = 1024


class RuntimeNotFoundError(Exception):
    """No runtime of that name where its kind says to look; str() is the text users see."""


class UnsupportedKindError(Exception):
    """`spec.runtime.kind` is neither runtime kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(f'unsupported runtime kind "{kind}"')


@dataclass(frozen=True)
class ResolvedRuntime:
    """A runtime with everything it inherits. What it hands out is shared and remembered: never change it."""

    chain: Chain

    @property
    def runtime(self) -> Runtime:
        """The runtime itself, with its own spec."""
        return self.chain.leaf

    @property
    def name(self) -> str:
        return self.chain.leaf.name

    @cached_property
    def merged(self) -> Mapping[str, Any]:
        """The merged spec as it was written: what matching looks at."""
        return self.chain.merged_spec()

    @cached_property
    def canonical(self) -> bytes:
        """Its canonical bytes (`spec/runtime-revisions.md section 3`): what a revision stores."""
        return canonical_runtime(dict(self.merged))

    @cached_property
    def spec(self) -> dict[str, Any]:
        """What pods are rendered from: the canonical form, not the written one. A service then renders the same pods
        from the live runtime and from the revision that stores it, and pinning it, or going live again, rolls nothing
        because of how a quantity was spelled or an empty field written."""
        return msgspec.json.decode(self.canonical, type=dict[str, Any])

    @cached_property
    def full_hash(self) -> str:
        """64 hex digits."""
        return hashlib.sha256(self.canonical).hexdigest()

    @property
    def hash8(self) -> str:
        return short_hash(self.full_hash)

    @property
    def disabled(self) -> bool:
        return self.merged.get("disabled") is True


def find_runtime(name: str, kind: str, namespace: str, reader: RuntimeReader) -> Runtime:
    """The runtime itself, nothing inherited. `kind` "" = an object that skipped API defaulting. Raises
    `RuntimeNotFoundError` with the exact text, `UnsupportedKindError`."""
    own = reader.serving_runtime(namespace, name)
    if kind == RuntimeKind.NAMESPACED:
        if own is None:
            raise RuntimeNotFoundError(f"ServingRuntime {name} not found in namespace {namespace}")
        return own
    cluster = reader.cluster_serving_runtime(name)
    if kind == RuntimeKind.CLUSTER:
        found = cluster or own
    elif not kind:
        found = own or cluster
    else:
        raise UnsupportedKindError(kind)
    if found is None:
        raise RuntimeNotFoundError(f"runtime {name} not found in namespace {namespace} or at cluster scope")
    return found


def disabled_text(name: str, kind: RuntimeKind) -> str:
    """`cluster-scoped runtime <n> is disabled`."""
    return f"{kind.scope} runtime {name} is disabled"


class NamedRuntimes:
    """Resolves runtimes by name, remembering merged specs and hashes as long as no member of a chain was written."""

    def __init__(self, reader: RuntimeReader) -> None:
        self._reader = reader
        self._known: OrderedDict[tuple[str, str, str], ResolvedRuntime] = OrderedDict()

    def resolve(self, name: str, kind: str, namespace: str) -> ResolvedRuntime:
        """Raises `RuntimeNotFoundError`, `UnsupportedKindError` and `ome.runtimes.inheritance.ChainError`."""
        runtime = find_runtime(name, kind, namespace, self._reader)
        return self._remember("named", resolve_chain(runtime, self._reader))

    def own(self, runtime: Runtime) -> ResolvedRuntime:
        """A runtime that OME selected: nothing inherited, remembered like the others."""
        return self._remember("selected", Chain((runtime,)))

    def _remember(self, use: str, chain: Chain) -> ResolvedRuntime:
        place = (use, chain.leaf.namespace, chain.leaf.name)
        known = self._known.get(place)
        if known is not None and _same(known.chain, chain):
            self._known.move_to_end(place)
            return known
        resolved = ResolvedRuntime(chain)
        self._known[place] = resolved
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return resolved


def _same(known: Chain, chain: Chain) -> bool:
    """An object without a version (never stored) is only equal to itself."""
    return all(version for _, version, _ in chain.identity) and known.identity == chain.identity
