"""Schema of the AutoscalerPolicy (`spec/api-types.md` section 6)."""

from __future__ import annotations

from ome.api.crds import workloads
from ome.api.crds.schema import (
    Schema,
    array,
    boolean,
    conditions,
    enum,
    int32,
    int64,
    object_names,
    rule,
    struct,
    text,
    text_map,
)


def spec() -> Schema:
    trigger = struct(
        {
            "type": text(),
            "providerRef": object_names(),
            "metricType": enum("AverageValue", "Value"),
            "queryReturnsDesiredReplicas": boolean(),
            "metadata": text_map(),
        },
        required=["type", "metadata"],
    )
    replicas = struct(
        {"value": int32(minimum=0), "fromComponent": enum("MaxReplicas", "MinReplicas")},
        one_of=["value", "fromComponent"],
    )
    keda = struct(
        {
            "triggers": array(trigger, minItems=1),
            "advanced": workloads.keda_advanced(),
            **workloads.keda_counts(),
            "fallback": struct(
                {"failureThreshold": int32(minimum=1), "replicas": replicas},
                required=["failureThreshold", "replicas"],
            ),
        },
        required=["triggers"],
    )
    return struct(
        {
            "enforcement": {**enum("Default", "Required"), "default": "Default"},
            "class": enum("HPA", "KEDA"),
            "keda": keda,
            "hpa": workloads.hpa(),
        },
        required=["class"],
        rules=[
            rule(
                "self.class != 'KEDA' || (has(self.keda) && !has(self.hpa))",
                "class KEDA requires keda and forbids hpa",
            ),
            rule("self.class != 'HPA' || !has(self.keda)", "class HPA forbids keda"),
        ],
    )


def status() -> Schema:
    return struct(
        {
            "observedGeneration": int64(),
            "portableDigest": text(),
            "attachedComponents": int32(),
            "conditions": conditions(),
        }
    )
