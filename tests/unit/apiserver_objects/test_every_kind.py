"""What holds for every built-in kind."""

from __future__ import annotations

import copy

import pytest

from ome.local.apiserver import kinds, ownership
from ome.local.apiserver.schema import types

from .support import context, identified

KINDS = sorted(
    (group, version, kind)
    for group, version, kind in types.kind_definitions()
    if not kind.endswith("List") and kind not in ("DeleteOptions", "WatchEvent", "Status", "APIVersions", "APIGroup")
    if "metadata" in types.of_kind(group, version, kind).fields
)


@pytest.mark.parametrize(("group", "version", "kind"), KINDS)
def test_an_empty_object_is_judged_and_never_breaks(group: str, version: str, kind: str) -> None:
    strategy = kinds.strategy(group, version, kind)
    obj, unknown = strategy.decode({})
    assert (unknown, obj) == ([], strategy.zero())
    identified(obj, group, version, kind)
    strategy.default(obj)
    strategy.prepare_create(obj)
    assert any(error.field == "metadata.name" for error in strategy.validate_create(obj))
    for subresource in ("", "status"):
        changed = copy.deepcopy(obj)
        strategy.prepare_update(changed, obj, subresource)
        strategy.validate_update(changed, obj, subresource)


@pytest.mark.parametrize(("group", "version", "kind"), KINDS)
def test_defaults_are_final_and_read_back_the_same(group: str, version: str, kind: str) -> None:
    strategy = kinds.strategy(group, version, kind)
    obj = strategy.zero()
    strategy.default(obj)
    once = copy.deepcopy(obj)
    strategy.default(obj)
    assert obj == once
    assert strategy.decode(once)[0] == once


@pytest.mark.parametrize(("group", "version", "kind"), KINDS)
def test_ownership_of_an_empty_object_is_empty(group: str, version: str, kind: str) -> None:
    zero = kinds.strategy(group, version, kind).zero()
    assert ownership.record_update(None, zero, context(group, version, kind)) == []
