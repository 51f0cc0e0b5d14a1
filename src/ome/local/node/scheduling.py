"""Which node a pod goes to, or why to none. Pure: `schedule` is called by the scheduler in `scheduler.py`.

Filters and their messages are Kubernetes' own. Nodes are then chosen for balance: fewest pods of the same workload,
then the smallest share of cpu, memory and devices in use, then the name, so that equal situations have equal
outcomes. There is no preemption and there are no priorities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ome.local.node.affinity import (
    Placed,
    affinity_satisfied,
    anti_affinity_satisfied,
    node_matches,
    spread_problem,
    tolerated_by_others,
)
from ome.local.node.resources import PODS, Amounts, parsed, pod_requests
from ome.local.node.taints import UNSCHEDULABLE, tolerates, untolerated
from ome.local.objects import Object

HostPort = tuple[str, int]  # protocol, port


@dataclass(frozen=True, slots=True)
class World:
    """What the scheduler sees.

    `room` is what each node can give (read off the node when left out), `held` what the pods on each node ask for
    together, `ports` their host ports, `siblings` how many of them belong to the pod's own workload. `placed` may be
    left empty when neither the pod nor any other has rules about its neighbours.
    """

    nodes: Sequence[Object]
    room: Mapping[str, Amounts] = field(default_factory=dict)
    held: Mapping[str, Amounts] = field(default_factory=dict)
    ports: Mapping[str, Collection[HostPort]] = field(default_factory=dict)
    siblings: Mapping[str, int] = field(default_factory=dict)
    placed: Sequence[Placed] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    claims: Mapping[str, bool] = field(default_factory=dict)  # the namespace's claims, and whether each is bound

    def room_of(self, node: Object) -> Amounts:
        found = self.room.get(node.name)
        return parsed(node.status.get("allocatable")) if found is None else found


@dataclass(frozen=True, slots=True)
class Placement:
    """`node` is the name of the chosen node; empty when there is none, and then `message` says why."""

    node: str = ""
    message: str = ""


def schedule(pod: Object, world: World) -> Placement:
    """Choose a node for the pod."""
    if not world.nodes:
        return Placement(message="no nodes available to schedule pods")
    claim = _claim_problem(pod, world.claims)
    if claim:
        return Placement(message=_refusal(len(world.nodes), claim, helpful=False))
    reasons: Counter[str] = Counter()
    fitting: list[Object] = []
    helpful = False
    for node in world.nodes:
        problems = _problems(pod, node, world)
        if not problems:
            fitting.append(node)
        helpful = helpful or any(_evictable(problem) for problem in problems)
        reasons.update(problems)
    if not fitting:
        texts = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        return Placement(message=_refusal(len(world.nodes), texts, helpful=helpful))
    return Placement(node=min(fitting, key=lambda node: _score(node, world)).name)


def _problems(pod: Object, node: Object, world: World) -> list[str]:
    """The reasons of the first filter that refuses the node; a filter may give several, one for each short resource."""
    tolerations = pod.spec.get("tolerations") or ()
    cordon = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
    if node.spec.get("unschedulable") and not any(tolerates(found, cordon) for found in tolerations):
        return ["node(s) were unschedulable"]
    taint = untolerated(tolerations, node.spec.get("taints") or (), ("NoSchedule", "NoExecute"))
    if taint is not None:
        return [f"node(s) had untolerated taint {{{taint.get('key')}: {taint.get('value') or ''}}}"]
    if not node_matches(pod, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    taken = world.ports.get(node.name, ())
    if any(port in taken for port in host_ports(pod)):
        return ["node(s) didn't have free ports for the requested pod ports"]
    short = _short_of(pod, world.room_of(node), world.held.get(node.name, {}))
    if short:
        return short
    spread = spread_problem(pod, node, world.nodes, world.placed)
    if spread:
        return [spread]
    if not tolerated_by_others(pod, node, world.placed, world.namespaces):
        return ["node(s) didn't satisfy existing pods anti-affinity rules"]
    if not affinity_satisfied(pod, node, world.placed, world.namespaces):
        return ["node(s) didn't match pod affinity rules"]
    if not anti_affinity_satisfied(pod, node, world.placed, world.namespaces):
        return ["node(s) didn't match pod anti-affinity rules"]
    return []


def _short_of(pod: Object, room: Amounts, held: Amounts) -> list[str]:
    none = Fraction(0)
    found = []
    if held.get(PODS, none) + 1 > room.get(PODS, none):
        found.append("Too many pods")
    for name, amount in pod_requests(pod).items():
        if amount + held.get(name, none) > room.get(name, none):
            found.append(f"Insufficient {name}")
    return found


def host_ports(pod: Object) -> frozenset[HostPort]:
    """The ports of the node that the pod takes for itself."""
    return frozenset(
        (str(port.get("protocol", "TCP")), int(port["hostPort"]))
        for container in pod.spec.get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def _claim_problem(pod: Object, claims: Mapping[str, bool]) -> str:
    for volume in pod.spec.get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if not name:
            continue
        if name not in claims:
            return f'persistentvolumeclaim "{name}" not found'
        if not claims[name]:
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def _score(node: Object, world: World) -> tuple[Any, ...]:
    room = world.room_of(node)
    held = world.held.get(node.name, {})
    shares = [held.get(name, Fraction(0)) / amount for name, amount in room.items() if amount and name != PODS]
    return world.siblings.get(node.name, 0), max(shares, default=Fraction(0)), node.name


def _evictable(problem: str) -> bool:
    """Whether fewer pods on the node would have helped, so that real preemption would have looked for victims."""
    return problem.startswith(
        ("Insufficient", "Too many", "node(s) didn't have free ports", "node(s) didn't match pod")
    )


def _refusal(total: int, texts: str, *, helpful: bool) -> str:
    why = "No preemption victims found for incoming pod" if helpful else "Preemption is not helpful for scheduling"
    available = f"0/{total} nodes are available"
    return f"{available}: {texts}. preemption: {available}: {total} {why}."
