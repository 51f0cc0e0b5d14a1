"""Choosing an accelerator class, and the nodes of one."""

from __future__ import annotations

from typing import Any

import pytest

from ome.api.core import Node, NodeStatus
from ome.api.meta import ObjectMeta
from ome.rendering.model import Component, ServiceFacts
from ome.runtimes.accelerators import AcceleratorClassNotFoundError, choose_accelerator, matching_nodes


def class_(memory: str = "80Gi", tflops: int = 100, **parts: Any) -> dict[str, Any]:
    capabilities = {"memoryGB": memory, "performance": {"fp16Tflops": tflops}, **parts.pop("capabilities", {})}
    return {"discovery": {}, "capabilities": capabilities, **parts}


CLASSES: dict[str, dict[str, Any]] = {
    "a100": class_(
        "40Gi", 312, vendor="nvidia", family="Ampere", cost={"perHour": "2"}, capabilities={"computeCapability": "8.0"}
    ),
    "h100": class_(
        "80Gi",
        990,
        vendor="nvidia",
        family="Hopper",
        cost={"perHour": "5", "spotPerHour": "1.5"},
        capabilities={"computeCapability": "9.0", "features": ["FP8"], "memoryBandwidthGBps": "3350"},
    ),
    "b200": class_("192Gi", 2250, vendor="nvidia", family="Blackwell", capabilities={"computeCapability": "10.0"}),
    "plain": class_("80", 10),
}


def choose(
    selector: dict[str, Any],
    override: dict[str, Any] | None = None,
    listed: list[str] | None = None,
    component: Component = Component.ENGINE,
) -> str | None:
    service = ServiceFacts(
        name="s",
        namespace="n",
        accelerator_selector=selector,
        components={component: {"acceleratorOverride": override} if override else {}},
    )
    classes = ["a100", "h100", "b200"] if listed is None else listed
    found = choose_accelerator(
        service, component, {"acceleratorRequirements": {"acceleratorClasses": classes}}, CLASSES.get
    )
    return found.name if found else None


CHOICES: dict[str, tuple[str | None, str | None]] = {
    "nothing asked": (choose({}), None),
    "a name": (choose({"acceleratorClass": "h100"}), "h100"),
    "a name beats a policy": (choose({"acceleratorClass": "h100", "policy": "FirstAvailable"}), "h100"),
    "a name of the selector beats the override's policy": (
        choose({"acceleratorClass": "h100"}, {"policy": "FirstAvailable"}),
        "h100",
    ),
    "the override's name wins": (choose({"acceleratorClass": "h100"}, {"acceleratorClass": "b200"}), "b200"),
    "the override's policy wins": (choose({"policy": "MostCapable"}, {"policy": "FirstAvailable"}), "a100"),
    "a named class need not be listed": (choose({"acceleratorClass": "plain"}), "plain"),
    "a runtime without a list chooses none": (choose({"acceleratorClass": "h100"}, listed=[]), None),
    "a router never has one": (choose({"acceleratorClass": "h100"}, component=Component.ROUTER), None),
    "first available": (choose({"policy": "FirstAvailable"}), "a100"),
    "missing classes are skipped": (choose({"policy": "FirstAvailable"}, listed=["gone", "h100"]), "h100"),
    "cheapest by spot price": (choose({"policy": "Cheapest"}), "h100"),
    "without cost a class is out": (choose({"policy": "Cheapest"}, listed=["b200", "a100"]), "a100"),
    "most capable": (choose({"policy": "MostCapable"}), "b200"),
    "best fit by memory": (choose({"policy": "BestFit", "constraints": {"minMemory": 75}}), "h100"),
    "best fit without constraints": (choose({"policy": "BestFit"}), "a100"),
    "memory in bytes is no GiB": (
        choose({"policy": "FirstAvailable", "constraints": {"minMemory": 1}}, listed=["plain", "a100"]),
        "a100",
    ),
    "maximum memory": (choose({"policy": "MostCapable", "constraints": {"maxMemory": 80}}), "h100"),
    "excluded classes": (choose({"policy": "FirstAvailable", "constraints": {"excludedClasses": ["a100"]}}), "h100"),
    "families ignore case": (
        choose({"policy": "FirstAvailable", "constraints": {"architectureFamilies": ["hopper"]}}),
        "h100",
    ),
    "vendor-family": (
        choose({"policy": "FirstAvailable", "constraints": {"architectureFamilies": ["NVIDIA-Blackwell"]}}),
        "b200",
    ),
    "features ignore case": (
        choose({"policy": "FirstAvailable", "constraints": {"requiredFeatures": ["fp8"]}}),
        "h100",
    ),
    "architecture versions compare as text": (
        choose({"policy": "MostCapable", "constraints": {"minArchitectureVersion": "9.0"}}),
        "h100",
    ),
    "constraints of an override are ignored": (
        choose({}, {"policy": "FirstAvailable", "constraints": {"excludedClasses": ["a100"]}}),
        "a100",
    ),
    "compute only lowers a fit": (
        choose({"policy": "BestFit", "constraints": {"minMemory": 40, "minComputePerformanceTFLOPS": 5000}}),
        "a100",
    ),
    "nothing passes": (choose({"policy": "FirstAvailable", "constraints": {"minMemory": 999}}), None),
    "an unknown policy": (choose({"policy": "Dearest"}), None),
}


@pytest.mark.spec("SR-16")
@pytest.mark.parametrize(("found", "wanted"), CHOICES.values(), ids=CHOICES)
def test_choices(found: str | None, wanted: str | None) -> None:
    assert found == wanted


def test_a_named_class_that_does_not_exist() -> None:
    with pytest.raises(AcceleratorClassNotFoundError, match=r"^accelerator class gone not found at cluster scope$"):
        choose({"acceleratorClass": "gone"})


def node(name: str, labels: dict[str, str], **capacity: str) -> Node:
    named = {key.replace("_", "/"): value for key, value in capacity.items()}
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(capacity=named))


NODES = [
    node("n3", {"gpu": "h100"}, nvidia_gpu="8"),
    node("n1", {"gpu": "h100"}, nvidia_gpu="0"),
    node("n2", {"gpu": "a100"}, nvidia_gpu="8"),
    node("n4", {"gpu": "h100"}),
    node("n0", {"gpu": "h100"}, nvidia_gpu="1"),
]
MATCHING: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "label and capacity": (
        {"discovery": {"nodeSelector": {"gpu": "h100"}}, "resources": [{"name": "nvidia/gpu"}]},
        ("n0", "n3"),
    ),
    "label alone": ({"discovery": {"nodeSelector": {"gpu": "h100"}}}, ("n0", "n1", "n3", "n4")),
    "capacity alone": ({"discovery": {}, "resources": [{"name": "nvidia/gpu"}]}, ("n0", "n2", "n3")),
    "neither": ({"discovery": {}}, ("n0", "n1", "n2", "n3", "n4")),
    "nothing": ({"discovery": {"nodeSelector": {"gpu": "tpu"}}}, ()),
}


@pytest.mark.parametrize(("spec", "names"), MATCHING.values(), ids=MATCHING)
def test_nodes_of_a_class(spec: dict[str, Any], names: tuple[str, ...]) -> None:
    assert matching_nodes(spec, NODES) == names
