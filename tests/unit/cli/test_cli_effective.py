"""The effective-runtime judgement, from literal objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ome.cli.evidence import effective_report
from ome.cli.evidence.chains import Chain, Member, follow, member
from ome.cli.evidence.effective import (
    Effective,
    LiveEvidence,
    RevisionEvidence,
    RuntimeEvidence,
    drift_state,
    effective,
    revisions_to_read,
    status_freshness,
    sync_state,
)
from ome.cli.evidence.modes import component_modes
from ome.cli.evidence.revisions import declared_source, read_revision, relation, with_group_issues
from ome.cli.output.table import render_table
from tests.support.cli_objects import (
    LLAMA_NAMESPACE,
    LLAMA_RUNTIME,
    REVISION_A,
    REVISION_B,
    drifted,
    merged,
    pinned_service,
    revision,
    runtime,
    runtime_spec,
    service,
)


def live(spec: dict[str, Any] | None = None) -> LiveEvidence:
    obj = runtime(LLAMA_RUNTIME, spec or runtime_spec(), LLAMA_NAMESPACE)
    return LiveEvidence(Chain((member(obj, LLAMA_NAMESPACE),)))


def stored(fraction: str = "0.9", **spec: Any) -> dict[str, Any]:
    return revision(LLAMA_RUNTIME, runtime_spec(fraction, **spec), LLAMA_NAMESPACE)


def judge(
    of: dict[str, Any],
    runtime_evidence: LiveEvidence | None = None,
    *revisions: dict[str, Any],
    failed: str = "NotFound",
) -> Effective:
    found = {obj["metadata"]["name"]: obj for obj in revisions}
    expected = declared_source(of)
    evidence = {
        name: RevisionEvidence(read_revision(found[name], expected, "ome"))
        if name in found
        else RevisionEvidence(reason=failed)
        for name in revisions_to_read(of)
    }
    return effective(RuntimeEvidence(of, runtime_evidence or live(), evidence))


DRIFTED = pinned_service(status={"conditions": [drifted()]})


@pytest.mark.spec("CR-6")
def test_a_drifted_managed_pin() -> None:
    found = judge(DRIFTED, live(runtime_spec("0.85")), stored())
    assert effective_report.rows(found) == [
        ["Live", "STATE", "Available"],
        ["Live", "RUNTIME", "SR/llama-demo/sglang-llama-3-2-3b"],
        ["Live", "HASH", "af9539ac"],
        ["Live", "ENGINE", "RawDeployment (Default)"],
        ["Active", "STATE", "Available"],
        ["Active", "RUNTIME", "SR/llama-demo/sglang-llama-3-2-3b"],
        ["Active", "REVISION", REVISION_A],
        ["Active", "HASH", "590753e8"],
        ["Active", "ENGINE", "RawDeployment (Default)"],
        ["Service", "PIN", "ManagedPin/Resolved"],
        ["Service", "SYNC", "Absent"],
        ["Service", "STATUS", "Current"],
        ["Service", "DRIFT", "ReportedTrue/RevisionMismatch"],
        ["Service", "LIVE-RELATION", "Different"],
    ]


def pin(**changes: Any) -> dict[str, Any]:
    return pinned_service(**changes)


PIN_STATES: list[tuple[str, Effective, str, str, str]] = [
    (
        "follows the live runtime",
        judge(pin(spec={"runtime": {"autoSync": True}})),
        "AutoSync/NotApplicable",
        "Available",
        "",
    ),
    ("names no runtime", judge(pin(spec={"runtime": None})), "AutoSync/NotApplicable", "Available", ""),
    (
        "pinned, nothing recorded yet",
        judge(pin(status={"pinnedRevisionName": None})),
        "ManagedPin/AwaitingPin",
        "Available",
        "",
    ),
    (
        "pinned, nothing recorded and no runtime",
        judge(pin(status={"pinnedRevisionName": None}), LiveEvidence(reason="NotFound")),
        "ManagedPin/Unavailable",
        "Unavailable",
        "NotFound",
    ),
    ("pinned and stored", judge(pin(), None, stored()), "ManagedPin/Resolved", "Available", ""),
    ("pinned, revision gone", judge(pin()), "ManagedPin/RevisionMissing", "Unavailable", "NotFound"),
    (
        "pinned, revision not readable",
        judge(pin(), failed="Forbidden"),
        "ManagedPin/Unavailable",
        "Unavailable",
        "Forbidden",
    ),
    (
        "pinned, runtime gone",
        judge(pin(), LiveEvidence(reason="NotFound"), stored()),
        "ManagedPin/Resolved",
        "Available",
        "",
    ),
    (
        "pinned, runtime disabled",
        judge(pin(), live(runtime_spec(disabled=True)), stored()),
        "ManagedPin/Unavailable",
        "Unavailable",
        "Disabled",
    ),
    (
        "pinned to a disabled spec",
        judge(
            pin(status={"pinnedRevisionName": "r-llama-demo-sglang-llama-3-2-3b-d03a10f1"}),
            None,
            stored("0.85", disabled=True),
        ),
        "ManagedPin/RevisionDisabled",
        "Unavailable",
        "Disabled",
    ),
    (
        "pinned to a relabelled revision",
        judge(pin(), None, merged(stored(), {"metadata": {"labels": {"ome.io/runtime-of": "other"}}})),
        "ManagedPin/RevisionInvalid",
        "Unavailable",
        "MalformedPayload",
    ),
    (
        "a revision is asked for that status does not report",
        judge(pin(spec={"runtime": {"revision": REVISION_B}}), None, stored(), stored("0.85")),
        "ExplicitPin/DesiredReportedMismatch",
        "Available",
        "",
    ),
    (
        "a revision is asked for and reported",
        judge(pin(spec={"runtime": {"revision": REVISION_A}}), None, stored()),
        "ExplicitPin/Resolved",
        "Available",
        "",
    ),
    (
        "a revision is asked for that does not exist",
        judge(pin(spec={"runtime": {"revision": REVISION_B}}), None, stored()),
        "ExplicitPin/RevisionMissing",
        "Unavailable",
        "NotFound",
    ),
    (
        "an unknown kind",
        judge(pin(spec={"runtime": {"kind": "Runtime"}})),
        "InvalidPin/InvalidIntent",
        "Unavailable",
        "MalformedPayload",
    ),
]


@pytest.mark.spec("CR-7")
@pytest.mark.parametrize(
    ("what", "found", "pin_text", "state", "reason"), PIN_STATES, ids=[what for what, *_ in PIN_STATES]
)
def test_pin_states(what: str, found: Effective, pin_text: str, state: str, reason: str) -> None:
    assert (found.pin, found.active.state, found.active.reason) == (pin_text, state, reason)


@pytest.mark.spec("CR-8")
def test_no_format_prints_a_spec() -> None:
    found = judge(DRIFTED, live(runtime_spec("0.85")), stored())
    texts = (
        render_table(effective_report.HEADER, effective_report.rows(found)),
        render_table(effective_report.WIDE_HEADER, effective_report.wide_rows(found)),
        json.dumps(effective_report.content(found)),
    )
    for text in texts:
        assert "lmsysorg" not in text
        assert "mem-frac" not in text


SYNC_STATES = [
    (None, None, "Absent"),
    (None, "a", "StatusOnly"),
    ("a", "a", "Acknowledged"),
    ("b", "a", "Pending"),
    ("b", None, "Pending"),
]


@pytest.mark.parametrize(("annotation", "recorded", "state"), SYNC_STATES)
def test_sync_states(annotation: str | None, recorded: str | None, state: str) -> None:
    of = pinned_service(
        metadata={"annotations": {"ome.io/runtime-sync": annotation}} if annotation else {},
        status={"lastRuntimeSyncToken": recorded},
    )
    assert sync_state(of) == state


@pytest.mark.parametrize(
    ("observed", "state"), [(None, "Unobserved"), (0, "Unobserved"), (1, "Stale"), (2, "Current"), (3, "Invalid")]
)
def test_status_freshness(observed: int | None, state: str) -> None:
    assert status_freshness(service(status={"observedGeneration": observed})) == state


@pytest.mark.spec("CR-32")
@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], "NotReported"),
        ([drifted()], "ReportedTrue/RevisionMismatch"),
        ([drifted(reason="RuntimeMismatch")], "ReportedTrue/RuntimeMismatch"),
        ([drifted(reason="Sabotage")], "ReportedTrue/Other"),
        ([drifted(reason="")], "ReportedTrue/Other"),
        ([drifted("False", "RevisionMissing")], "ReportedFalse/RevisionMissing"),
        ([drifted("Unknown", "SourceRuntimeMissing")], "ReportedUnknown/SourceRuntimeMissing"),
        ([drifted("Maybe")], "Malformed/RevisionMismatch"),
        ([drifted(), drifted()], "Malformed"),
    ],
)
def test_drift_words(conditions: list[dict[str, Any]], state: str) -> None:
    assert drift_state(pinned_service(status={"conditions": conditions})) == state


def test_relations_compare_full_hashes() -> None:
    assert relation("a" * 64, "a" * 64) == "Equal"
    assert relation("a" * 64, "b" * 64) == "Different"
    assert relation("a" * 64, "a" * 8 + "b" * 56) == "Ambiguous"
    assert relation("", "a" * 64) == "Unknown"


REVISION_ISSUES = [
    ("RevisionNotOMEManaged", {"metadata": {"annotations": {"ome.io/created-by": "me"}}}),
    ("RevisionSourceMismatch", {"metadata": {"labels": {"ome.io/runtime-of-namespace": "elsewhere"}}}),
    ("RevisionHashInvalid", {"metadata": {"labels": {"ome.io/revision-hash": "590753E8"}}}),
    ("RevisionHashMismatch", {"metadata": {"labels": {"ome.io/revision-hash": "00000000"}}}),
    ("RevisionNameMismatch", {"metadata": {"name": "r-llama-demo-sglang-llama-3-2-3b-00000000"}}),
    ("RevisionOrdinalUnexpected", {"revision": 2}),
    ("RevisionPayloadMalformed", {"data": "text"}),
    ("RevisionIdentityMismatch", {"metadata": {"namespace": "elsewhere"}}),
]


@pytest.mark.parametrize(("issue", "changes"), REVISION_ISSUES, ids=[issue for issue, _ in REVISION_ISSUES])
def test_a_revision_that_contradicts_itself_is_named(issue: str, changes: dict[str, Any]) -> None:
    obj = merged(stored(), changes)
    if issue == "RevisionPayloadMalformed":
        obj["data"] = "text"
    assert issue in read_revision(obj, declared_source(pinned_service()), "ome").issues


def test_a_sound_revision_has_no_issue() -> None:
    assert read_revision(stored(), declared_source(pinned_service()), "ome").issues == ()


def test_a_payload_in_another_order_is_not_canonical() -> None:
    obj = stored()
    obj["data"] = dict(reversed(obj["data"].items()))
    assert read_revision(obj, declared_source(pinned_service()), "ome").issues == ("RevisionPayloadNonCanonical",)


def test_revisions_are_compared_with_one_another() -> None:
    expected = declared_source(pinned_service())
    twin = merged(stored(), {"metadata": {"name": "twin", "uid": "u2"}})
    one, two = with_group_issues([read_revision(stored(), expected, "ome"), read_revision(twin, expected, "ome")])
    assert "DuplicateRevisionContent" in one.issues
    assert "DuplicateRevisionContent" in two.issues
    again, _ = with_group_issues([read_revision(stored(), expected, "ome")] * 2)
    assert "DuplicateRevision" in again.issues


def runtimes(**parents: str) -> dict[str, Member]:
    return {
        name: member(runtime(name, {}, annotations={"ome.io/inherit-from": parent} if parent else {}), "")
        for name, parent in parents.items()
    }


@pytest.mark.parametrize(
    ("parents", "names", "issue"),
    [
        ({"a": ""}, ["a"], ""),
        ({"a": "b", "b": "c", "c": ""}, ["c", "b", "a"], ""),
        ({"a": "b"}, ["a"], "ParentMissing"),
        ({"a": "b", "b": "a"}, ["b", "a"], "CycleDetected"),
        ({"a": "a"}, ["a"], "CycleDetected"),
        (
            {"a": "b", "b": "c", "c": "d", "d": "e", "e": "f", "f": ""},
            ["e", "d", "c", "b", "a"],
            "MaxDepthExceeded",
        ),
    ],
)
def test_chains(parents: dict[str, str], names: list[str], issue: str) -> None:
    known = runtimes(**parents)
    chain = follow(known["a"], lambda child, name: known.get(name))
    assert [entry.name for entry in chain.members] == names
    assert chain.issue == issue


MODE_CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"deploymentMode": "OMENative"}, {}),
    ({"deploymentMode": "Serverless"}, {}),
    ({"engine": {"leader": {}}}, {}),
    ({"engine": {"annotations": {"ome.io/deploymentMode": "OMENative"}}, "deploymentMode": "RawDeployment"}, {}),
    ({"engine": {"annotations": {"ome.io/deploymentMode": "nonsense"}}}, {}),
    ({}, {"engineConfig": {"annotations": {"ome.io/deploymentMode": "MultiNode"}}}),
    ({}, {"engineConfig": {"worker": {"size": 2}}}),
    ({"router": {}}, {"routerConfig": {"leader": {}}}),
    ({"decoder": {"worker": {}}}, {}),
]


@pytest.mark.parametrize(("spec", "runtime_config"), MODE_CASES)
def test_the_tools_modes_are_the_operators(spec: dict[str, Any], runtime_config: dict[str, Any]) -> None:
    from ome.cli.selection import service_facts
    from ome.rendering.model import Component
    from ome.rendering.modes import choose_mode

    of = service(spec={"deploymentMode": None} | spec)
    facts = service_facts(of)
    for mode in component_modes(of, runtime_config):
        component = Component(mode.component)
        effective_component = {**runtime_config.get(component.config_key, {}), **facts.components[component]}
        choice = choose_mode(component, facts, runtime_config, effective_component)
        assert (mode.mode, mode.source) == (choice.mode, choice.source)


def test_issues_tell_what_is_wrong() -> None:
    found = judge(pin(status={"observedGeneration": None}), LiveEvidence(reason="NotFound"))
    assert [str(issue) for issue in found.issues] == [
        "LiveRuntimeUnavailable",
        "StatusUnobserved",
        "ActiveRevisionUnavailable",
        f"RevisionNotFound({REVISION_A})",
    ]


@pytest.mark.parametrize(
    ("of", "code"),
    [
        (pin(status={"conditions": [drifted(), drifted()]}), "ReportedDriftConflict"),
        (pin(status={"pinnedRevisionName": None}), "ActiveRevisionUnreported"),
        (pin(spec={"runtime": {"kind": "Runtime"}}), "InvalidDeclaredKind"),
    ],
)
def test_more_issues(of: dict[str, Any], code: str) -> None:
    assert code in [issue.code for issue in judge(of, None, stored()).issues]
