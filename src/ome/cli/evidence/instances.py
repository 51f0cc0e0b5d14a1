"""`instance list`: the Instances of a service as its InferenceReplicas report them, and how far that can be trusted.

spec/cli-instance.md section 2. Pure; status only, pods are never read here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ome.api.keys import PARENT_GENERATION
from ome.cli.evidence import objects, rows
from ome.cli.evidence.replicas import Replicas, component_of, observed_generation, parent_stamp

HEADER = ("COMP", "IDX/INC", "PHASE", "PODS", "REVS", "AOF", "EVIDENCE")
PHASES = ("Pending", "Creating", "Ready", "Updating", "Restarting", "Migrating", "Failed", "Deleting")

_LEVELS = {
    "OK": "Reported",
    "SPARSE": "Reported",
    "EMPTY": "Reported",
    "PARENT-UNAVL": "Stale",
    "NOT-OBSERVED": "Unavailable",
    "NOT-REPORTED": "Unavailable",
    "ROWS-LIMIT": "Unavailable",
    "UNAVAILABLE": "Unavailable",
}


class ComponentInstances(NamedTuple):
    """One component: its replica's name, the table's EVIDENCE value, and the rows that may be shown."""

    component: str
    replica: str
    encoding: str
    evidence: str
    instances: tuple[Mapping[str, Any], ...] = ()

    @property
    def level(self) -> str:
        if self.evidence.startswith("BAD"):
            return "Malformed"
        return _LEVELS.get(self.evidence, "Stale")


class InstanceList(NamedTuple):
    components: Sequence[ComponentInstances]
    problem: str

    @property
    def state(self) -> str:
        if self.problem == "SOURCE-UNAVL":
            return "UNAVAILABLE"
        sound = not self.problem and all(entry.level == "Reported" for entry in self.components)
        return "OK" if sound else "PARTIAL"


def _counts_are_bad(instance: Mapping[str, Any]) -> bool:
    total = objects.count(instance, "podCount")
    parts = [objects.count(instance, key) for key in ("servingPodCount", "availablePodCount")]
    return total < 0 or any(part < 0 or part > total for part in parts)


def _revisions_are_bad(instance: Mapping[str, Any]) -> bool:
    names = [instance.get(key) for key in ("runningRevision", "targetRevision")]
    return any(name not in (None, "") and not (isinstance(name, str) and objects.is_subdomain(name)) for name in names)


def _malformed(replica: Mapping[str, Any], service: Mapping[str, Any], instances: Sequence[Mapping[str, Any]]) -> str:
    """The most specific BAD value, or `""`; checked in the order of the spec's list."""
    indexes = [objects.integer(instance, "index") for instance in instances]
    known = [index for index in indexes if index is not None and index >= 0]
    if len(set(known)) != len(known):
        return "BAD:DUP-IDX"
    observed, generation = observed_generation(replica), objects.generation(replica) or 0
    if observed is not None and (observed < 0 or observed > generation):
        return "BAD:GEN"
    stamp, written = parent_stamp(replica), objects.annotation(replica, PARENT_GENERATION)
    if written is not None and (not stamp or stamp > (objects.generation(service) or 0)):
        return "BAD:PARENT"
    if any(_revisions_are_bad(instance) for instance in instances):
        return "BAD:REVISION"
    reported = objects.count(replica, "status", "replicas")
    if reported < 0 or (instances and reported != len(instances)) or any(_counts_are_bad(i) for i in instances):
        return "BAD:COUNTS"
    if any(objects.text(instance, "phase") not in PHASES for instance in instances):
        return "BAD:PHASE"
    return "BAD:INSTANCE" if len(known) != len(indexes) else ""


def _freshness(replica: Mapping[str, Any], service: Mapping[str, Any]) -> str:
    observed, generation = observed_generation(replica), objects.generation(replica)
    if not observed:
        return "NOT-OBSERVED"
    if observed != generation:
        return f"STALE:{observed}/{generation}"
    stamp = parent_stamp(replica)
    if stamp is None:
        return "PARENT-UNAVL"
    return "" if stamp == objects.generation(service) else "STALE:PARENT"


def _completeness(replica: Mapping[str, Any], instances: Sequence[Mapping[str, Any]]) -> str:
    if not instances:
        return "NOT-REPORTED" if objects.count(replica, "status", "replicas") else "EMPTY"
    indexes = sorted(objects.count(instance, "index") for instance in instances)
    return "OK" if indexes == list(range(len(indexes))) else "SPARSE"


def component_instances(replica: Mapping[str, Any], service: Mapping[str, Any]) -> ComponentInstances:
    """Precedence of section 2: malformed, not observed, stale, parent, limit, not reported, empty, sparse, OK."""
    component, name, encoding = component_of(replica), objects.name(replica), rows.encoding(replica)
    stale = _freshness(replica, service)
    try:
        instances = rows.decode(replica)
    except rows.RowsError as error:
        evidence = (stale or "ROWS-LIMIT") if error.too_many else "BAD"
        return ComponentInstances(component, name, encoding, evidence)
    instances.sort(key=lambda instance: objects.count(instance, "index"))
    evidence = _malformed(replica, service, instances) or stale or _completeness(replica, instances)
    return ComponentInstances(component, name, encoding, evidence, tuple(instances))


def instance_list(service: Mapping[str, Any], replicas: Replicas) -> InstanceList:
    """Every component that has a replica, and what was wrong with the collection."""
    found = []
    for component in dict.fromkeys(component_of(replica) for replica in replicas.accepted):
        mine = replicas.of(component)
        if len(mine) > 1:
            found.append(ComponentInstances(component, "", "", "BAD:DUP-COMP"))
        elif component not in objects.COMPONENTS:
            found.append(ComponentInstances(component or "-", objects.name(mine[0]), "", "BAD"))
        else:
            found.append(component_instances(mine[0], service))
    problem = ""
    if replicas.unavailable:
        problem = "SOURCE-UNAVL"
    elif replicas.rejected:
        problem = "REJECTED"
    elif replicas.truncated:
        problem = "TRUNCATED"
    return InstanceList(found, problem)


def revisions_cell(running: str, target: str) -> str:
    """`running>target`, `>target`, or what runs; over 11 characters the first and last four of the whole."""
    whole = running
    if target and target != running:
        whole = f"{running}>{target}"
    return whole if len(whole) <= 11 else f"{whole[:4]}...{whole[-4:]}"


def _row(entry: ComponentInstances, instance: Mapping[str, Any]) -> list[str]:
    counts = [objects.count(instance, key) for key in ("servingPodCount", "availablePodCount", "podCount")]
    flags = (
        ("A", instance.get("admitted") is True),
        ("O", instance.get("operation") is not None),
        ("F", instance.get("lastFailure") is not None),
    )
    index = objects.integer(instance, "index")
    return [
        entry.component,
        f"{'?' if index is None else index}/{objects.count(instance, 'incarnation')}",
        objects.text(instance, "phase") or "-",
        "/".join(str(count) for count in counts),
        revisions_cell(objects.text(instance, "runningRevision"), objects.text(instance, "targetRevision")) or "-",
        "".join(letter if on else "-" for letter, on in flags),
        entry.evidence,
    ]


def table_rows(found: InstanceList) -> list[list[str]]:
    lines: list[list[str]] = []
    for entry in found.components:
        lines += [_row(entry, instance) for instance in entry.instances]
        if not entry.instances:
            lines.append([entry.component, *["-"] * 5, entry.evidence])
    if not lines:
        return [["-"] * 6 + [found.problem or found.state]]
    if found.problem:
        lines.append(["summary", *["-"] * 5, found.problem])
    return lines


def content(found: InstanceList) -> dict[str, Any]:
    states = {"OK": "Reported", "PARTIAL": "Partial", "UNAVAILABLE": "Unavailable"}
    return {
        "summary": {
            "state": states[found.state],
            "components": len(found.components),
            "instances": sum(len(entry.instances) for entry in found.components),
            **({"collection": found.problem} if found.problem else {}),
        },
        "components": [
            {
                "component": entry.component,
                "inferenceReplica": entry.replica,
                "encoding": entry.encoding,
                "evidence": entry.level,
                "reason": entry.evidence,
                "instances": [dict(instance) for instance in entry.instances],
            }
            for entry in found.components
        ],
    }
