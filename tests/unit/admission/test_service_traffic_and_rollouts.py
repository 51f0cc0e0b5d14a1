"""Traffic, traffic annotations, rollout groups and canaries of an InferenceService."""

# ruff: noqa: E501 -- texts that users see stand on one line where they can

from __future__ import annotations

from typing import Any

import pytest

from ome.admission.services.proposal import Features
from ome.admission.services.traffic import within_two_edits
from tests.unit.admission.builders import judged, refusal, service

ON = Features(rollout_policy=True)
LAST = {"capacity": "100%", "traffic": 100}


def annotated(key: str, value: str, **more: str) -> dict[str, Any]:
    return service(annotations={key: value, **more})


# -- annotations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("ome.io/circuit-breaker-max-connections", "many", "InvalidIntValue"),
        ("ome.io/retry-per-try-timeout", "3", "InvalidDuration"),
        ("ome.io/rollout-ready-timeout", "soon", "InvalidDuration"),
        ("ome.io/retry-on", "5xx,never", "InvalidRetryOn"),
        ("ome.io/managed-by-conflict-acked", "yes", "InvalidBoolValue"),
        ("ome.io/rollout-rollback", "True", "InvalidBoolValue"),
        ("ome.io/revision-history-limit", "0", "InvalidIntValue"),
        ("ome.io/btp.", "1", "UnsupportedPassthrough"),
        ("ome.io/traffic-drain", "{", "InvalidTrafficDrain"),
    ],
)
def test_refused_annotations(key: str, value: str, reason: str) -> None:
    text = refusal(annotated(key, value))
    assert key in text
    assert text.endswith(f"({reason})")


def test_retries_need_conditions() -> None:
    assert refusal(annotated("ome.io/retry-attempts", "3")) == (
        'annotation "ome.io/retry-attempts" set to 3 requires "ome.io/retry-on" to specify retry conditions '
        "(MissingRetryOn)"
    )
    assert refusal(annotated("ome.io/retry-attempts", "0")) == ""
    assert refusal(annotated("ome.io/retry-attempts", "3", **{"ome.io/retry-on": "5xx, reset"})) == ""


@pytest.mark.spec("LA-2")
def test_a_mistyped_key_is_refused_naming_the_known_one() -> None:
    assert refusal(annotated("ome.io/retry-attempt", "3")) == (
        'annotation "ome.io/retry-attempt" is not known; did you mean "ome.io/retry-attempts"? (UnknownTrafficAnnotation)'
    )
    assert refusal(annotated("ome.io/rollout-pausedd", "true")) == ""
    assert refusal(annotated("example.com/retry-attempt", "3")) == ""


@pytest.mark.parametrize(
    "key",
    ["ome.io/runtime-sync", "ome.io/rollout-paused", "ome.io/rollout-repin", "ome.io/service-type", "ome.io/metrics"],
)
def test_known_keys_are_no_typing_errors(key: str) -> None:
    assert refusal(annotated(key, "cpu")) == ""


@pytest.mark.parametrize(
    ("one", "other", "close"),
    [("abc", "abc", False), ("abc", "abd", True), ("abc", "abcde", True), ("abc", "abcdef", False), ("ab", "ba", True)],
)
def test_edit_distance(one: str, other: str, close: bool) -> None:
    assert within_two_edits(one, other) is close


# -- spec.traffic ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("IN-21")
def test_consistent_hashing_needs_its_block() -> None:
    assert refusal(service(traffic={"algorithm": "ConsistentHash"})) == (
        "spec.traffic.consistentHash is required when spec.traffic.algorithm=ConsistentHash (MissingConsistentHashSpec)"
    )


def hashed(**hashing: Any) -> dict[str, Any]:
    return {"algorithm": "ConsistentHash", "consistentHash": hashing}


@pytest.mark.parametrize(
    ("traffic", "reason"),
    [
        ({"algorithm": "Random", "consistentHash": {"type": "SourceIP"}}, "UnexpectedConsistentHashSpec"),
        (hashed(type="Header"), "MissingHashKey"),
        (hashed(type="Cookie"), "MissingHashKey"),
        (hashed(type="Cookie", cookie={"name": "c"}, headers=[{"name": "h"}]), "MultipleHashKeys"),
        (hashed(type="Header", headers=[{"name": "a"}, {"name": "b"}]), "UnsupportedMultiHeaderHash"),
        ({"endpointOverride": {"type": "Header"}}, "MissingEndpointOverrideKey"),
        ({"endpointOverride": {"type": "Metadata"}}, "ReservedEndpointOverrideType"),
    ],
)
def test_refused_traffic(traffic: dict[str, Any], reason: str) -> None:
    assert refusal(service(traffic=traffic)).endswith(f"({reason})")


@pytest.mark.parametrize(
    "traffic",
    [{}, {"algorithm": "LeastRequest"}, hashed(type="SourceIP"), hashed(type="Header", headers=[{"name": "h"}])],
)
def test_admitted_traffic(traffic: dict[str, Any]) -> None:
    assert refusal(service(traffic=traffic)) == ""


# -- rollout groups ----------------------------------------------------------------------------------------------------


def pair(*groups: dict[str, Any], mode: str = "OMENative", **rollout: Any) -> dict[str, Any]:
    """A service of engine and decoder with these groups."""
    return service(deploymentMode=mode, engine={}, decoder={}, rollout={"groups": list(groups), **rollout})


def group(*components: str, **progression: Any) -> dict[str, Any]:
    return {"components": list(components), **progression}


def canary(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return group("engine", "decoder", canary={"steps": list(steps), **more})


def analysed(**metric: Any) -> dict[str, Any]:
    complete = {"name": "m", "query": "up", "operator": "LT", "threshold": "1"} | metric
    return canary(
        {"capacity": 1, "traffic": 10, "analysis": {"interval": "1m", "failureLimit": 1, "metrics": [complete]}}, LAST
    )


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        pytest.param(
            pair(group("engine"), group("engine", "decoder")),
            "DuplicateComponentInCoordinationGroups",
            id="two groups share a component",
            marks=pytest.mark.spec("IN-11"),
        ),
        pytest.param(
            pair(group("router")), "OrphanCoordinationGroup", id="not declared", marks=pytest.mark.spec("IN-11")
        ),
        pytest.param(
            pair(canary(LAST), mode="RawDeployment"),
            "CanaryRequiresOMENative",
            id="a canary on RawDeployment",
            marks=pytest.mark.spec("IN-11"),
        ),
        pytest.param(pair(group("engine"), mode="RawDeployment"), "CoordinationRequiresOMENative", id="RawDeployment"),
        pytest.param(
            pair(group("engine", rollingUpdate={"maxSurge": -1})), "InvalidRollingUpdateInteger", id="negative surge"
        ),
        pytest.param(
            pair(group("engine", rollingUpdate={"maxSurge": "x"})), "InvalidRollingUpdatePercent", id="no percentage"
        ),
        pytest.param(
            pair(group("engine", rollingUpdate={"maxSurge": 0, "maxUnavailable": 0})),
            "ZeroBudgetPacingUnstartable",
            id="zero budgets",
        ),
        pytest.param(pair(group("engine", soak="long")), "InvalidDuration", id="soak"),
        pytest.param(
            pair(group("engine", policyRef={"name": "p", "progression": "canary"})),
            "RolloutPolicyRefUnsupported",
            id="policies are off",
        ),
        pytest.param(pair(canary()), "CanaryInvalid", id="no steps"),
        pytest.param(pair(canary({"capacity": 1, "traffic": 50})), "CanaryInvalid", id="the last step is not whole"),
        pytest.param(
            pair(canary({"capacity": 1, "traffic": 50}, {"capacity": 1, "traffic": 10}, LAST)),
            "CanaryInvalid",
            id="traffic decreases",
        ),
        pytest.param(pair(group("engine", canary={"steps": [LAST]})), "CanaryInvalid", id="half a pair"),
        pytest.param(pair(analysed(threshold="many")), "AnalysisInvalid", id="threshold"),
        pytest.param(pair(analysed(query=" ")), "AnalysisInvalid", id="query"),
        pytest.param(pair(group("engine", order=["engine"])), "OrderNotHonored", id="order"),
        pytest.param(pair(group("engine", soak="10m")), "SoakNotHonored", id="soak without a sequence"),
        pytest.param(
            pair(group("engine", rollingUpdate={}), group("decoder")),
            "GroupOrderingNotHonored",
            id="a rolling update in a sequence",
        ),
    ],
)
def test_refused_rollouts(new: dict[str, Any], reason: str) -> None:
    assert refusal(new).endswith(f"({reason})")


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(pair(group("engine", "decoder")), id="one blueGreen group"),
        pytest.param(pair(group("decoder", soak="10m"), group("engine")), id="a sequence with soak"),
        pytest.param(
            pair(group("engine", rollingUpdate={}), group("decoder"), groupOrdering="Concurrent"),
            id="concurrent groups",
        ),
        pytest.param(
            pair(canary({"capacity": "25%", "traffic": 10, "pause": {"duration": "5m"}}, LAST)), id="a canary"
        ),
        pytest.param(pair(analysed()), id="an analysis"),
    ],
)
def test_admitted_rollouts(new: dict[str, Any]) -> None:
    assert refusal(new) == ""


def test_two_canaries() -> None:
    reference = {"name": "p", "kind": "RolloutPolicy", "progression": "canary"}
    two = pair(group("engine", policyRef=reference), group("decoder", policyRef=reference), groupOrdering="Concurrent")
    assert refusal(two, features=ON).endswith("(MultipleCanaryGroups)")


def test_a_stored_order_may_stay_while_other_things_change() -> None:
    old = pair(group("engine", order=["engine"]))
    new = pair(group("engine", order=["engine"]))
    new["metadata"]["annotations"] = {"note": "changed"}
    assert refusal(new, old=old) == ""


def test_members_of_a_rolling_update_are_edited_together() -> None:
    together = group("engine", "decoder", rollingUpdate={})
    old, new = pair(together), pair(together)
    new["spec"]["engine"] = {"runner": {"name": "ome-container", "image": "new"}}
    assert refusal(new, old=old).endswith("(RollingUpdateLockstepViolation)")
    new["spec"]["decoder"] = {"runner": {"name": "ome-container", "image": "new"}}
    assert refusal(new, old=old) == ""
    scaled = pair(together)
    scaled["spec"]["engine"] = {"minReplicas": 2}
    assert refusal(scaled, old=old) == "", "a replica count makes no revision"


def test_a_new_pairing_protocol_needs_one_group() -> None:
    old = pair(group("engine"), group("decoder"), pairingProtocol="v1")
    new = pair(group("engine"), group("decoder"), pairingProtocol="v2")
    assert refusal(new, old=old).endswith("(PairingProtocolChangeUncoordinated)")
    assert refusal(pair(group("engine", "decoder"), pairingProtocol="v2"), old=old) == ""


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (pair(group("engine", "decoder", maintainRatio={"tolerance": 60})), "RatioToleranceTooHigh"),
        (pair(canary(LAST, readyTimeout="30s")), "RolloutTimeoutTooShort"),
        (annotated("ome.io/rollout-ready-timeout", "30s"), "RolloutTimeoutTooShort"),
    ],
)
def test_warnings(new: dict[str, Any], reason: str) -> None:
    (warning,) = judged(new).warnings
    assert reason in warning
