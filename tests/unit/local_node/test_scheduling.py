"""Which node a pod goes to, and the words for when there is none."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from ome.local.node.affinity import Placed
from ome.local.node.scheduling import World, schedule
from tests.unit.local_workloads.builders import Build, pod


def node(name: str, **labels: str) -> Build:
    room = {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "4"}
    return Build(name, "Node", "", labels={"kubernetes.io/hostname": name, **labels}, status={"allocatable": room})


def asking(name: str = "a", **requests: str) -> Build:
    resources = {"requests": {key.replace("gpu", "nvidia.com/gpu"): value for key, value in requests.items()}}
    return pod(name).having(containers=[{"name": "main", "image": "i", "resources": resources}])


def tainted(name: str, effect: str = "NoSchedule") -> Build:
    return node(name).having(taints=[{"key": "dedicated", "value": "team", "effect": effect}])


def near(key: str, *, anti: bool, app: str = "web") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    kind = "podAntiAffinity" if anti else "podAffinity"
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def on_nodes(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


NOWHERE = {
    "no nodes": (asking(), [], "no nodes available to schedule pods"),
    "too little of a resource": (
        asking(cpu="9", gpu="5"),
        [node("n1"), node("n2")],
        "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient nvidia.com/gpu. preemption: "
        "0/2 nodes are available: "
        "2 No preemption victims found for incoming pod.",
    ),
    "a selector that nothing has": (
        asking().having(nodeSelector={"no": "such"}),
        [node("n1")],
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: 0/1 nodes are "
        "available: 1 Preemption is not helpful for scheduling.",
    ),
    "different reasons on different nodes, sorted": (
        asking(gpu="5"),
        [node("n1"), tainted("n2"), node("n3").having(unschedulable=True)],
        "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {dedicated: team}, "
        "1 node(s) were unschedulable. preemption: 0/3 nodes are available: "
        "3 No preemption victims found for incoming pod.",
    ),
    "a claim that does not exist": (
        asking().having(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
        [node("n1")],
        '0/1 nodes are available: persistentvolumeclaim "data" not found. preemption: 0/1 nodes are available: '
        "1 Preemption is not helpful for scheduling.",
    ),
}


@pytest.mark.parametrize("case", NOWHERE.values(), ids=NOWHERE.keys())
def test_a_pod_that_fits_nowhere_says_why(case: Any) -> None:
    asked, nodes, message = case
    placement = schedule(asked.build(), World([found.build() for found in nodes]))
    assert (placement.node, placement.message) == ("", message)


FITS = {
    "what is held counts": (asking(gpu="2"), [node("n1"), node("n2")], {"n1": {"nvidia.com/gpu": 3}}, "n2"),
    "the emptier node is taken": (asking(cpu="1"), [node("n1"), node("n2")], {"n1": {"cpu": 4}}, "n2"),
    "equal nodes go by name": (asking(), [node("n2"), node("n1")], {}, "n1"),
    "a taint is no obstacle when tolerated": (
        asking().having(tolerations=[{"key": "dedicated", "operator": "Exists"}], nodeSelector={"k": "v"}),
        [tainted("n1").labelled(k="v"), node("n2")],
        {},
        "n1",
    ),
    "a preference taint is no obstacle": (asking(), [tainted("n1", "PreferNoSchedule")], {}, "n1"),
    "affinity expressions In": (
        asking().having(affinity=on_nodes({"key": "gpu", "operator": "In", "values": ["h100"]})),
        [node("n1", gpu="a10"), node("n2", gpu="h100")],
        {},
        "n2",
    ),
    "affinity expressions Gt": (
        asking().having(affinity=on_nodes({"key": "mem", "operator": "Gt", "values": ["64"]})),
        [node("n1", mem="40"), node("n2", mem="80")],
        {},
        "n2",
    ),
    "NotIn takes a node without the label": (
        asking().having(affinity=on_nodes({"key": "gpu", "operator": "NotIn", "values": ["a10"]})),
        [node("n1", gpu="a10"), node("n2")],
        {},
        "n2",
    ),
}


@pytest.mark.parametrize("case", FITS.values(), ids=FITS.keys())
def test_a_pod_goes_where_it_fits(case: Any) -> None:
    asked, nodes, held, expected = case
    amounts = {name: {key: Fraction(value) for key, value in found.items()} for name, found in held.items()}
    assert schedule(asked.build(), World([found.build() for found in nodes], held=amounts)).node == expected


def test_an_init_container_may_need_more_than_the_rest() -> None:
    init = [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "7"}}}]
    asked = asking(cpu="2").having(initContainers=init).build()
    held = {"n1": {"cpu": Fraction(2)}}
    assert "1 Insufficient cpu" in schedule(asked, World([node("n1").build()], held=held)).message


def placed(name: str, on: Build, **labels: str) -> Placed:
    built = on.build()
    return Placed(pod(name, **labels).on(built.name).build(), built.metadata.labels)


def test_pods_that_shun_each_other_go_apart() -> None:
    n1, n2 = node("n1"), node("n2")
    shunning = pod("b", app="web").having(affinity=near("kubernetes.io/hostname", anti=True)).build()
    world = World([n1.build(), n2.build()], placed=[placed("a", n1, app="web")])
    assert schedule(shunning, world).node == "n2"
    crowded = World([n1.build()], placed=[placed("a", n1, app="web")])
    assert "1 node(s) didn't match pod anti-affinity rules" in schedule(shunning, crowded).message


def test_a_pod_may_be_shunned_by_those_already_there() -> None:
    n1 = node("n1")
    holder = pod("a", app="db").having(affinity=near("kubernetes.io/hostname", anti=True)).on("n1").build()
    world = World([n1.build()], placed=[Placed(holder, n1.build().metadata.labels)])
    message = schedule(pod("b", app="web").build(), world).message
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in message


def test_pods_that_seek_each_other_meet_and_the_first_may_start() -> None:
    n1, n2 = node("n1", zone="a"), node("n2", zone="b")
    seeking = pod("b", app="web").having(affinity=near("zone", anti=False)).build()
    nodes = [n1.build(), n2.build()]
    assert schedule(seeking, World(nodes)).node == "n1"
    assert schedule(seeking, World(nodes, placed=[placed("a", n2, app="web")])).node == "n2"
    stranger = pod("b", app="api").having(affinity=near("zone", anti=False)).build()
    assert "2 node(s) didn't match pod affinity rules" in schedule(stranger, World(nodes)).message


def test_topology_spread_keeps_the_skew() -> None:
    n1, n2 = node("n1", zone="a"), node("n2", zone="b")
    rule = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    spread = pod("c", app="web").having(topologySpreadConstraints=[rule]).build()
    nodes = [n1.build(), n2.build()]
    assert schedule(spread, World(nodes, placed=[placed("a", n1, app="web")])).node == "n2"
    lone = World([n1.build(), n2.having(unschedulable=True).build()], placed=[placed("a", n1, app="web")])
    assert "1 node(s) didn't match pod topology spread constraints" in schedule(spread, lone).message


def test_pods_of_one_workload_are_spread_first() -> None:
    nodes = [node("n1").build(), node("n2").build()]
    world = World(nodes, held={"n2": {"cpu": Fraction(4)}}, siblings={"n1": 1})
    assert schedule(asking(cpu="1").build(), world).node == "n2"
