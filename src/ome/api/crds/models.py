"""Schemas of models, fine-tuned weights, accelerator classes, benchmark jobs (`spec/api-types.md` sections 9 to 11)."""

from __future__ import annotations

from functools import cache

from ome.api.crds.runtimes import diffusion_pipeline, model_format
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
    object_names,
    quantity,
    raw_object,
    struct,
    text,
    text_map,
    texts,
    time,
)


@cache
def storage() -> Schema:
    return struct(
        {
            "storageUri": text(),
            "path": text(),
            "schemaPath": text(),
            "parameters": text_map(),
            "key": text(),
            "nodeSelector": {**text_map(), "x-kubernetes-map-type": "atomic"},
            "nodeAffinity": core("core.v1.NodeAffinity"),
            "downloadPolicy": enum("AlwaysDownload", "ReuseIfExists"),
        },
        required=["storageUri"],
    )


def _extension() -> dict[str, Schema]:
    return {
        "displayName": text(),
        "version": text(),
        "vendor": text(),
        "compartmentID": text(),
        "disabled": boolean(),
    }


@cache
def base_model_spec() -> Schema:
    return struct(
        {
            "storage": storage(),
            "modelFormat": model_format(),
            "modelFramework": model_format(),
            "modelType": text(),
            "modelArchitecture": text(),
            "modelParameterSize": text(),
            "quantization": text(),
            "modelCapabilities": atomic(text()),
            "apiCapabilities": texts(),
            "modelConfiguration": raw_object(),
            "maxTokens": int32(),
            "servingMode": texts(),
            "distribution": enum("PerNode", "Sharded"),
            "diffusionPipeline": diffusion_pipeline(),
            "additionalMetadata": text_map(),
            **_extension(),
        },
        required=["storage"],
    )


def fine_tuned_weight_spec() -> Schema:
    return struct(
        {
            "baseModelRef": object_names("namespace"),
            "modelType": text(),
            "hyperParameters": raw_object(),
            "configuration": raw_object(),
            "storage": storage(),
            "trainingJobRef": struct({"name": text(), "namespace": text()}),
            **_extension(),
        },
        required=["baseModelRef", "modelType", "hyperParameters", "storage"],
    )


def model_status() -> Schema:
    return struct(
        {
            "lifecycle": text(),
            "state": enum("Creating", "Importing", "In_Transit", "In_Training", "Ready", "Failed"),
            "observedGeneration": int64(),
            "lastReconcileTime": time(),
            "nodesReady": texts(),
            "nodesFailed": texts(),
            "conditions": conditions(),
            "cache": struct({"backend": text(), "sourceUri": text()}),
        }
    )


def accelerator_class_spec() -> Schema:
    latency = struct({"averageMillis": int64(), "maximumMillis": int64()})
    performance = struct(
        {
            "fp32Tflops": int64(),
            "fp16Tflops": int64(),
            "int8Tops": int64(),
            "int4Tops": int64(),
            "latency": latency,
        }
    )
    discovery = struct(
        {
            "nodeSelector": text_map(),
            "affinity": core("core.v1.Affinity"),
            "pciVendorID": text(),
            "deviceIDs": texts(),
        }
    )
    capabilities = struct(
        {
            "memoryGB": quantity(),
            "computeCapability": text(),
            "levelZeroVersion": text(),
            "clockSpeedMHz": int32(),
            "memoryBandwidthGBps": quantity(),
            "features": texts(),
            "performance": performance,
        }
    )
    resource = struct({"name": text(), "quantity": quantity(default="1"), "divisible": boolean()}, required=["name"])
    cost = struct({"perHour": quantity(), "perMillionTokens": quantity(), "spotPerHour": quantity(), "tier": text()})
    return struct(
        {
            "vendor": text(),
            "family": text(),
            "model": text(),
            "discovery": discovery,
            "capabilities": capabilities,
            "resources": array(resource),
            "integration": struct({"kueueResourceFlavor": text(), "volcanoGPUType": text()}),
            "cost": cost,
        },
        required=["discovery", "capabilities"],
    )


def accelerator_class_status() -> Schema:
    return struct(
        {
            "nodes": texts(),
            "totalAccelerators": int32(),
            "availableAccelerators": int32(),
            "availableNodes": int32(),
            "lastUpdated": time(),
            "conditions": conditions(),
        }
    )


def benchmark_job_spec() -> Schema:
    address = struct(
        {
            "url": text(pattern="^(http|https)://"),
            "apiFormat": enum("openai", "oci-cohere", "cohere"),
            "modelName": text(),
        },
        required=["url", "apiFormat"],
    )
    service = struct({"name": text(), "namespace": text()}, required=["name", "namespace"])
    endpoint = struct({"inferenceService": service, "endpoint": address}, one_of=["inferenceService", "endpoint"])
    metadata = struct(
        {
            "engine": enum("vLLM", "SGLang", "TGI"),
            "version": text(),
            "gpuType": enum("H100", "A100", "MI300", "A10"),
            "gpuCount": {"type": "integer"},
        },
        required=["engine", "version", "gpuType", "gpuCount"],
    )
    pod = core("core.v1.PodSpec")["properties"]
    container = core("core.v1.Container")["properties"]
    override = struct(
        {
            **{name: container[name] for name in ("image", "env", "envFrom", "volumeMounts", "resources")},
            **{name: pod[name] for name in ("tolerations", "nodeSelector", "affinity", "volumes")},
        }
    )
    return struct(
        {
            "endpoint": endpoint,
            "task": enum("text-to-text", "image-to-text", "text-to-embeddings", "image-to-embeddings"),
            "maxTimePerIteration": {"type": "integer"},
            "maxRequestsPerIteration": {"type": "integer"},
            "outputLocation": storage(),
            "trafficScenarios": texts(),
            "numConcurrency": array({"type": "integer"}),
            "resultFolderName": text(),
            "serviceMetadata": metadata,
            "huggingFaceSecretReference": object_names(),
            "additionalRequestParams": map_of(text()),
            "dataset": storage(),
            "podOverride": override,
        },
        required=["endpoint", "task", "maxTimePerIteration", "maxRequestsPerIteration", "outputLocation"],
    )


def benchmark_job_status() -> Schema:
    return struct(
        {
            "state": enum("Pending", "Running", "Completed", "Failed"),
            "startTime": time(),
            "completionTime": time(),
            "lastReconcileTime": time(),
            "failureMessage": text(),
            "details": text(),
        }
    )
