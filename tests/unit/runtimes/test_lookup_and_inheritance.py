"""Names, kinds, chains and the texts of what does not resolve."""

from __future__ import annotations

from typing import Any

import pytest

from ome.runtimes.inheritance import (
    ChainError,
    InheritanceCycleError,
    MaxDepthExceededError,
    ParentNotFoundError,
    resolve_chain,
)
from ome.runtimes.lookup import NamedRuntimes, RuntimeNotFoundError, UnsupportedKindError, disabled_text, find_runtime
from ome.runtimes.reading import Runtime, RuntimeKind, RuntimeSnapshot
from tests.unit.runtimes.builders import runtime

BOTH = [runtime("rt"), runtime("rt", namespace="prod")]
ONLY_CLUSTER = [runtime("rt")]
ONLY_OWN = [runtime("rt", namespace="prod")]
ELSEWHERE = [runtime("rt", namespace="other")]
FOUND: dict[str, tuple[str, list[Runtime], RuntimeKind]] = {
    "cluster kind takes the cluster's": ("ClusterServingRuntime", BOTH, RuntimeKind.CLUSTER),
    "cluster kind falls back to the namespace": ("ClusterServingRuntime", ONLY_OWN, RuntimeKind.NAMESPACED),
    "namespaced kind takes the namespace's": ("ServingRuntime", BOTH, RuntimeKind.NAMESPACED),
    "no kind takes the namespace's first": ("", BOTH, RuntimeKind.NAMESPACED),
    "no kind falls back to the cluster": ("", ONLY_CLUSTER, RuntimeKind.CLUSTER),
}


@pytest.mark.spec("SR-10")
@pytest.mark.parametrize(("kind", "runtimes", "found"), FOUND.values(), ids=FOUND)
def test_lookup(kind: str, runtimes: list[Runtime], found: RuntimeKind) -> None:
    assert find_runtime("rt", kind, "prod", RuntimeSnapshot(runtimes)).kind is found


MISSING: dict[str, tuple[str, list[Runtime], str]] = {
    "cluster kind": ("ClusterServingRuntime", ELSEWHERE, "runtime rt not found in namespace prod or at cluster scope"),
    "namespaced kind": ("ServingRuntime", ONLY_CLUSTER, "ServingRuntime rt not found in namespace prod"),
    "no kind": ("", ELSEWHERE, "runtime rt not found in namespace prod or at cluster scope"),
}


@pytest.mark.spec("SR-10")
@pytest.mark.parametrize(("kind", "runtimes", "text"), MISSING.values(), ids=MISSING)
def test_not_found(kind: str, runtimes: list[Runtime], text: str) -> None:
    with pytest.raises(RuntimeNotFoundError) as refused:
        find_runtime("rt", kind, "prod", RuntimeSnapshot(runtimes))
    assert str(refused.value) == text


def test_an_unknown_kind() -> None:
    with pytest.raises(UnsupportedKindError, match=r'^unsupported runtime kind "Deployment"$'):
        find_runtime("rt", "Deployment", "prod", RuntimeSnapshot(BOTH))


def test_the_refusal_of_a_disabled_runtime_names_its_scope() -> None:
    assert disabled_text("rt", RuntimeKind.CLUSTER) == "cluster-scoped runtime rt is disabled"
    assert disabled_text("rt", RuntimeKind.NAMESPACED) == "namespace-scoped runtime rt is disabled"


def _line(*names: str, namespace: str = "") -> list[Runtime]:
    """Each inherits from the next."""
    return [
        runtime(name, {"value": name}, parent=parent, namespace=namespace)
        for name, parent in zip(names, (*names[1:], ""), strict=True)
    ]


def test_a_chain_is_root_first() -> None:
    line = _line("a", "b", "c")
    assert resolve_chain(line[0], RuntimeSnapshot(line)).names == ("c", "b", "a")


def test_without_a_parent_the_chain_is_the_runtime_and_its_spec_is_shared() -> None:
    alone = runtime("a", {"x": 1})
    chain = resolve_chain(alone, RuntimeSnapshot([alone]))
    assert chain.names == ("a",)
    assert chain.merged_spec() is alone.spec


BROKEN: dict[str, tuple[list[Runtime], type[ChainError], str]] = {
    "a missing parent": (
        [runtime("a", parent="b"), runtime("b", parent="c")],
        ParentNotFoundError,
        'inherit-from parent "c" not found (chain so far: [a b])',
    ),
    "a cycle": (
        [runtime("a", parent="b"), runtime("b", parent="a")],
        InheritanceCycleError,
        "inheritance cycle detected: [a b a]",
    ),
    "itself": ([runtime("a", parent="a")], InheritanceCycleError, "inheritance cycle detected: [a a]"),
    "a cycle above": (
        [runtime("a", parent="b"), runtime("b", parent="c"), runtime("c", parent="b")],
        InheritanceCycleError,
        "inheritance cycle detected: [a b c b]",
    ),
    "six runtimes": (
        _line("a", "b", "c", "d", "e", "f"),
        MaxDepthExceededError,
        "inheritance chain exceeds max depth 5: [a b c d e f]",
    ),
    "a namesake of the cluster": (
        [runtime("a", namespace="prod", parent="a"), runtime("a")],
        InheritanceCycleError,
        "inheritance cycle detected: [a a]",
    ),
}


@pytest.mark.spec("SR-8")
@pytest.mark.parametrize(("runtimes", "error", "text"), BROKEN.values(), ids=BROKEN)
def test_broken_chains(runtimes: list[Runtime], error: type[ChainError], text: str) -> None:
    with pytest.raises(error) as refused:
        resolve_chain(runtimes[0], RuntimeSnapshot(runtimes))
    assert str(refused.value) == text


def test_five_runtimes_are_a_chain() -> None:
    line = _line("a", "b", "c", "d", "e")
    assert len(resolve_chain(line[0], RuntimeSnapshot(line)).members) == 5


def test_a_serving_runtimes_chain_asks_its_namespace_first_at_every_step() -> None:
    runtimes = [
        runtime("a", namespace="prod", parent="b"),
        runtime("b", parent="c"),
        runtime("c", namespace="prod"),
        runtime("c"),
        runtime("b", namespace="other"),
    ]
    chain = resolve_chain(runtimes[0], RuntimeSnapshot(runtimes))
    assert [(member.name, member.namespace) for member in chain.members] == [("c", "prod"), ("b", ""), ("a", "prod")]


def test_a_cluster_runtimes_parents_are_cluster_runtimes() -> None:
    runtimes = [runtime("a", parent="b"), runtime("b", namespace="prod")]
    with pytest.raises(ParentNotFoundError):
        resolve_chain(runtimes[0], RuntimeSnapshot(runtimes))


@pytest.mark.spec("SR-7")
def test_image_and_command_from_the_profile_and_args_from_the_child() -> None:
    profile = runtime(
        "profile",
        {
            "disabled": True,
            "engineConfig": {"runner": {"name": "ome-container", "image": "i", "command": ["c"], "args": ["p"]}},
        },
    )
    child = runtime(
        "child",
        {"disabled": False, "engineConfig": {"runner": {"name": "ome-container", "args": ["--name={{.Name}}"]}}},
        parent="profile",
    )
    resolved = NamedRuntimes(RuntimeSnapshot([profile, child])).resolve("child", "ClusterServingRuntime", "prod")
    assert resolved.spec["engineConfig"]["runner"] == {
        "name": "ome-container",
        "image": "i",
        "command": ["c"],
        "args": ["--name={{.Name}}"],
        "resources": {},
    }
    assert not resolved.disabled


def test_a_child_of_a_profile_is_disabled_unless_it_says_otherwise() -> None:
    runtimes = [runtime("profile", {"disabled": True}), runtime("child", {"engineConfig": {}}, parent="profile")]
    assert NamedRuntimes(RuntimeSnapshot(runtimes)).resolve("child", "ClusterServingRuntime", "prod").disabled


def test_merged_specs_are_remembered_until_a_member_is_written() -> None:
    def world(version: str, value: Any) -> RuntimeSnapshot:
        return RuntimeSnapshot([runtime("p", {"v": value}, version=version), runtime("c", parent="p", version="1")])

    class Moving:
        now = world("1", 1)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.now, name)

    moving = Moving()
    named = NamedRuntimes(moving)  # type: ignore[arg-type]
    first = named.resolve("c", "ClusterServingRuntime", "prod")
    assert named.resolve("c", "ClusterServingRuntime", "prod") is first
    moving.now = world("2", 2)
    again = named.resolve("c", "ClusterServingRuntime", "prod")
    assert (first.spec["v"], again.spec["v"]) == (1, 2)
    assert again.hash8 != first.hash8


def test_a_spec_is_rendered_in_the_form_a_revision_stores() -> None:
    """`1000m` and `1`, an empty string and nothing: one spec, so pinning must not roll pods."""
    written = {
        "engineConfig": {
            "runner": {
                "name": "c",
                "env": [{"name": "A", "value": ""}],
                "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
            }
        }
    }
    resolved = NamedRuntimes(RuntimeSnapshot([runtime("rt", written)])).resolve("rt", "", "prod")
    runner = resolved.spec["engineConfig"]["runner"]
    assert runner["resources"] == {"limits": {"cpu": "1", "memory": "1Gi"}}
    assert runner["env"] == [{"name": "A"}]
    assert resolved.merged == written
