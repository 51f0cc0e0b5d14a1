"""An upgrade of the operator changes no pod: what is rendered today is what was rendered when these templates were
kept.

A difference here rolls users' pods. If that is meant, a decision record says so, and `python -m
tests.unit.rendering.test_promises` writes the file anew.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ome.api.config import DeployConfig, ReplicaDefaults, StrategyDefault
from ome.rendering.model import AcceleratorFacts, Component, RenderDefaults, RenderInput
from ome.rendering.render import render
from tests.unit.rendering.builders import FORMAT, MODEL, PVC, RUNNER, facts

KEPT = Path(__file__).with_name("promises.json")
CHART = RenderDefaults(
    deploy=DeployConfig(
        replicas=ReplicaDefaults(default_min_replicas=1, default_max_replicas={"engine": 3, "decoder": 3, "router": 2}),
        termination_grace_period_seconds=600,
        update_strategy={
            name: StrategyDefault(type="SurgeThenDrain", max_surge="25%", max_unavailable="25%")
            for name in ("engine", "decoder", "router")
        },
    ),
    instance_ready_timeout="30m",
)
GANG = {"leader": {"runner": deepcopy(RUNNER)}, "worker": {"runner": deepcopy(RUNNER), "size": 2}, "runner": None}
TRIO = {
    "decoderConfig": {"runner": {**deepcopy(RUNNER), "args": ["--disaggregation-mode=decode"]}},
    "routerConfig": {"runner": {"name": "router", "image": "router:1", "args": ["{{.Name}}"]}, "config": {"k": "v"}},
}
H100 = AcceleratorFacts(
    name="h100",
    spec={"discovery": {"nodeSelector": {"gpu": "h100"}}, "resources": [{"name": "nvidia.com/gpu", "quantity": "8"}]},
)
OVERRIDDEN = {
    "supportedModelFormats": [
        {**FORMAT, "acceleratorConfig": {"h100": {"tensorParallelismOverride": {"tensorParallelSize": 8}}}}
    ]
}
CASES: dict[str, RenderInput] = {
    "raw": facts(defaults=CHART),
    "raw-pvc": facts(defaults=CHART, model=PVC),
    "raw-without-model": facts(defaults=CHART, model=None),
    "omenative": facts(defaults=CHART, service={"deployment_mode": "OMENative"}),
    "gang": facts(defaults=CHART, config=GANG),
    "multi-node": facts({"annotations": {"ome.io/deploymentMode": "MultiNode"}}, defaults=CHART, config=GANG),
    "trio": facts(defaults=CHART, runtime=TRIO, components={Component.DECODER: {}, Component.ROUTER: {}}),
    "accelerated": facts(defaults=CHART, accelerator=H100, runtime=OVERRIDDEN),
    "overlaid": facts(defaults=CHART, overlays=(replace(MODEL, name="lora-a"),)),
}


def rendered(given: RenderInput) -> list[dict[str, Any]]:
    rendering = render(given)
    assert rendering.error is None
    return [
        {
            "name": part.name,
            "template": part.template,
            "workerTemplate": part.worker_template,
            "workerSize": part.worker_size,
            "labels": part.labels,
            "annotations": part.annotations,
            "ports": list(part.service_ports),
            "replicas": [part.replicas.minimum, part.replicas.maximum],
            "lifecycle": part.lifecycle,
        }
        for part in rendering.components
    ]


@pytest.mark.parametrize("name", CASES)
def test_what_is_rendered_is_what_was_rendered(name: str) -> None:
    assert rendered(CASES[name]) == json.loads(KEPT.read_text())[name]


if __name__ == "__main__":
    KEPT.write_text(
        json.dumps({name: rendered(given) for name, given in CASES.items()}, indent=1, sort_keys=True) + "\n"
    )
