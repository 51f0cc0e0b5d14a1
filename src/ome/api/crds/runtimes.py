"""Schemas of ServingRuntime and ClusterServingRuntime (`spec/api-types.md` section 8)."""

from __future__ import annotations

from functools import cache

from ome.api.crds import workloads
from ome.api.crds.schema import (
    Schema,
    array,
    atomic,
    boolean,
    conditions,
    core,
    enum,
    int32,
    int64,
    map_of,
    struct,
    text,
    text_map,
    texts,
)


def model_format() -> Schema:
    """ModelFormat and ModelFrameworkSpec."""
    return struct(
        {
            "name": text(),
            "version": text(),
            "operator": {**enum("Equal", "GreaterThan", "GreaterThanOrEqual"), "default": "Equal"},
            "weight": int64(default=1),
        },
        required=["name"],
    )


def diffusion_pipeline() -> Schema:
    part = struct({"library": text(), "type": text()})
    return struct(
        {
            "className": text(),
            "scheduler": part,
            "textEncoder": part,
            "tokenizer": part,
            "transformer": part,
            "vae": part,
            "additionalComponents": map_of(part),
        }
    )


def supported_model_format() -> Schema:
    parallelism = struct(
        {
            "tensorParallelSize": int64(minimum=0),
            "pipelineParallelSize": int64(minimum=0),
            "dataParallelSize": int64(minimum=0),
        }
    )
    override = struct(
        {
            "minMemoryPerBillionParams": int64(),
            "tensorParallelismOverride": parallelism,
            "runtimeArgsOverride": texts(),
            "environmentOverride": text_map(),
        }
    )
    return struct(
        {
            "name": text(),
            "modelFormat": model_format(),
            "modelType": text(),
            "version": text(),
            "modelFramework": model_format(),
            "modelArchitecture": text(),
            "quantization": text(),
            "diffusionPipeline": diffusion_pipeline(),
            "modelCacheProviders": texts(),
            "autoSelect": boolean(),
            "priority": int32(minimum=1),
            "acceleratorConfig": map_of(override),
        },
        required=["modelFormat", "modelFramework"],
    )


@cache
def spec() -> Schema:
    pod = core("core.v1.PodSpec")["properties"]
    requirements = struct(
        {
            "acceleratorClasses": texts(),
            "minMemory": int64(minimum=0),
            "minComputePerformanceTFLOPS": int64(minimum=0),
            "minArchitectureVersion": text(),
            "requiredFeatures": texts(),
            "preferredPrecisions": texts(),
        }
    )
    inlined = ("volumes", "nodeSelector", "affinity", "tolerations")
    rest = ("imagePullSecrets", "schedulerName", "hostIPC", "dnsPolicy", "hostNetwork")
    return struct(
        {
            "supportedModelFormats": atomic(supported_model_format()),
            "modelSizeRange": struct({"min": text(), "max": text()}),
            "disabled": boolean(),
            "routerConfig": workloads.router(ephemeral=True),
            "engineConfig": workloads.engine(ephemeral=True),
            "decoderConfig": workloads.engine(ephemeral=True),
            "protocolVersions": array(enum("openAI", "openInference-v1", "openInference-v2")),
            "containers": pod["containers"],
            **{name: pod[name] for name in inlined},
            "labels": text_map(),
            "annotations": text_map(),
            **{name: pod[name] for name in rest},
            "scalingPolicy": workloads.scaling_policy(),
            "acceleratorRequirements": requirements,
        }
    )


def status() -> Schema:
    return struct({"inheritanceChain": texts(), "conditions": conditions()})
