"""Canonical bytes, and the hashes made of them: promises that no upgrade may break.

Two encodings live here. `canonical_runtime` is the one of runtime revisions: what Go's `encoding/json` emits for a
typed ServingRuntimeSpec (`spec/runtime-revisions.md` section 3), so that revisions have the same names whoever computed
them. `canonical_json` sorts keys and is used for payloads that only OME reads (`spec/omenative.md` section 5.1).

Both take plain dicts and never change them. A field added later and left unset leaves every old hash as it is; a field
that no table below knows is kept, sorted behind the known ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import orjson

from ome.api.quantity import canonical_quantity, is_quantity

SHORT_HASH_LENGTH: Final = 8

Json = Any
Shape = Callable[[Json], Json]


def canonical_json(value: Json) -> bytes:
    """UTF-8, no white space, keys sorted, null members left out. For payloads that only OME reads."""
    return _encode(_sorted(value))


def canonical_runtime(spec: dict[str, Any]) -> bytes:
    """The canonical bytes of a merged ServingRuntimeSpec *as the API server stored it*, its schema defaults filled in.

    A spec that never went through an API server (a manifest) first goes through `with_runtime_defaults`.
    """
    return _encode(_RUNTIME(spec))


def runtime_hash(spec: dict[str, Any]) -> str:
    """SHA-256 of `canonical_runtime(spec)`, 64 lowercase hex digits (`spec/runtime-revisions.md` section 3)."""
    return hashlib.sha256(canonical_runtime(spec)).hexdigest()


def short_hash(full: str) -> str:
    """The part of a runtime hash that stands in revision names and labels, and that drift compares."""
    return full[:SHORT_HASH_LENGTH]


def with_runtime_defaults(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec with the CRD's defaults: `operator`, `weight`, `protocol` of ports. A new dict; idempotent."""
    defaulted: dict[str, Any] = _fill_defaults(spec)
    return defaulted


# -- encoding ----------------------------------------------------------------------------------------------------------


def _encode(value: Json) -> bytes:
    # These characters and sequences occur in JSON text inside strings only, so replacing them in the text is safe.
    return (
        orjson.dumps(value)
        .replace(b"<", b"\\u003c")
        .replace(b">", b"\\u003e")
        .replace(b"&", b"\\u0026")
        .replace("\u2028".encode(), b"\\u2028")
        .replace("\u2029".encode(), b"\\u2029")
    )


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=_key_bytes) if value[key] is not None}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def _key_bytes(key: str) -> bytes:
    return key.encode()


# -- the language of the tables below ----------------------------------------------------------------------------------


class _Field(NamedTuple):
    name: str
    shape: Shape
    kept: Callable[[Json], bool]
    always: bool = False
    when_unset: Json = None


def _plain(value: Json) -> Json:
    return _sorted(value)


def _not_zero(value: Json) -> bool:
    return value not in (None, "", 0, False) and value != [] and value != {}


def _not_null(value: Json) -> bool:
    return value is not None


def _value(*names: str) -> list[_Field]:
    """Go fields with `omitempty` that are no pointers: zero values, empty lists and empty maps disappear."""
    return [_Field(name, _plain, _not_zero) for name in names]


def _pointer(*names: str) -> list[_Field]:
    """Go pointers: whatever was written stays, also `false`, `0`, `""` and `{}`."""
    return [_Field(name, _plain, _not_null) for name in names]


def _shaped_value(name: str, shape: Shape) -> list[_Field]:
    return [_Field(name, shape, _not_zero)]


def _shaped_pointer(name: str, shape: Shape) -> list[_Field]:
    return [_Field(name, shape, _not_null)]


def _always(name: str, when_unset: Json, shape: Shape = _plain) -> list[_Field]:
    """Go fields without `omitempty`, and structs by value: written in any case."""
    return [_Field(name, shape, _not_null, always=True, when_unset=when_unset)]


def _struct(*groups: list[_Field]) -> Shape:
    fields = [field for group in groups for field in group]
    known = frozenset(field.name for field in fields)

    def shape(value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        result: dict[str, Any] = {}
        for field in fields:
            given = value.get(field.name)
            if field.kept(given):
                result[field.name] = field.shape(given)
            elif field.always:
                result[field.name] = field.when_unset
        for name in sorted(value.keys() - known, key=_key_bytes):
            if value[name] is not None:
                result[name] = _sorted(value[name])
        return result

    return shape


def _list_of(shape: Shape) -> Shape:
    def of(value: Json) -> Json:
        return [shape(item) for item in value] if isinstance(value, list) else value

    return of


def _map_of(shape: Shape) -> Shape:
    def of(value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        return {key: shape(value[key]) for key in sorted(value, key=_key_bytes)}

    return of


def _quantity(value: Json) -> Json:
    return canonical_quantity(value) if isinstance(value, str | int | float) and is_quantity(value) else value


# -- core/v1 -----------------------------------------------------------------------------------------------------------

_CONTAINER_PORT: Final = _struct(_value("name", "hostPort"), _always("containerPort", 0), _value("protocol", "hostIP"))
_VOLUME_MOUNT: Final = _struct(
    _always("name", ""),
    _value("readOnly"),
    _pointer("recursiveReadOnly"),
    _always("mountPath", ""),
    _value("subPath"),
    _pointer("mountPropagation"),
    _value("subPathExpr"),
)
_ENV_VAR: Final = _struct(_always("name", ""), _value("value"), _pointer("valueFrom"))
_RESOURCES: Final = _struct(
    _shaped_value("limits", _map_of(_quantity)), _shaped_value("requests", _map_of(_quantity)), _value("claims")
)
_TOLERATION: Final = _struct(_value("key", "operator", "value", "effect"), _pointer("tolerationSeconds"))
_HTTP_GET: Final = _struct(_value("path"), _always("port", 0), _value("host", "scheme", "httpHeaders"))
_PROBE: Final = _struct(
    _pointer("exec"),
    _shaped_pointer("httpGet", _HTTP_GET),
    _pointer("tcpSocket", "grpc"),
    _value("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
    _pointer("terminationGracePeriodSeconds"),
)
_EMPTY_DIR: Final = _struct(_value("medium"), _shaped_pointer("sizeLimit", _quantity))
_HOST_PATH: Final = _struct(_always("path", ""), _pointer("type"))
_VOLUME: Final = _struct(
    _always("name", ""), _shaped_pointer("hostPath", _HOST_PATH), _shaped_pointer("emptyDir", _EMPTY_DIR)
)

_CONTAINER_FIELDS: Final = [
    *_always("name", ""),
    *_value("image", "command", "args", "workingDir"),
    *_shaped_value("ports", _list_of(_CONTAINER_PORT)),
    *_value("envFrom"),
    *_shaped_value("env", _list_of(_ENV_VAR)),
    *_always("resources", {}, _RESOURCES),
    *_value("resizePolicy"),
    *_pointer("restartPolicy"),
    *_shaped_value("volumeMounts", _list_of(_VOLUME_MOUNT)),
    *_value("volumeDevices"),
    *_shaped_pointer("livenessProbe", _PROBE),
    *_shaped_pointer("readinessProbe", _PROBE),
    *_shaped_pointer("startupProbe", _PROBE),
    *_pointer("lifecycle"),
    *_value("terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"),
    *_pointer("securityContext"),
    *_value("stdin", "stdinOnce", "tty"),
]
_CONTAINER: Final = _struct(_CONTAINER_FIELDS)

_POD_FIELDS: Final = [
    *_shaped_value("volumes", _list_of(_VOLUME)),
    *_shaped_value("initContainers", _list_of(_CONTAINER)),
    *_shaped_value("containers", _list_of(_CONTAINER)),
    *_shaped_value("ephemeralContainers", _list_of(_CONTAINER)),
    *_value("restartPolicy"),
    *_pointer("terminationGracePeriodSeconds", "activeDeadlineSeconds"),
    *_value("dnsPolicy", "nodeSelector", "serviceAccountName", "serviceAccount"),
    *_pointer("automountServiceAccountToken"),
    *_value("nodeName", "hostNetwork", "hostPID", "hostIPC"),
    *_pointer("shareProcessNamespace", "securityContext"),
    *_value("imagePullSecrets", "hostname", "subdomain"),
    *_pointer("affinity"),
    *_value("schedulerName"),
    *_shaped_value("tolerations", _list_of(_TOLERATION)),
    *_value("hostAliases", "priorityClassName"),
    *_pointer("priority", "dnsConfig"),
    *_value("readinessGates"),
    *_pointer("runtimeClassName", "enableServiceLinks", "preemptionPolicy"),
    *_shaped_value("overhead", _map_of(_quantity)),
    *_value("topologySpreadConstraints"),
    *_pointer("setHostnameAsFQDN", "os", "hostUsers"),
    *_value("schedulingGates", "resourceClaims"),
]

# -- ome.io/v1beta1 ----------------------------------------------------------------------------------------------------

_EXTENSION_FIELDS: Final = [
    *_pointer("minReplicas"),
    *_value("maxReplicas"),
    *_pointer("timeoutSeconds"),
    *_value("labels", "annotations", "servicePortAppProtocols"),
    *_pointer("minAvailable", "maxUnavailable", "deploymentStrategy", "lifecycle", "autoscaler", "autoscalerPolicyRef"),
]
_LEADER: Final = _struct(_POD_FIELDS, _shaped_pointer("runner", _CONTAINER))
_WORKER: Final = _struct(_POD_FIELDS, _pointer("size"), _shaped_pointer("runner", _CONTAINER))
_ENGINE: Final = _struct(
    _POD_FIELDS,
    _EXTENSION_FIELDS,
    _shaped_pointer("runner", _CONTAINER),
    _shaped_pointer("leader", _LEADER),
    _shaped_pointer("worker", _WORKER),
    _value("topologyKey", "topologySpread", "topologySpreadKey"),
    _pointer("acceleratorOverride"),
)
_ROUTER: Final = _struct(_POD_FIELDS, _EXTENSION_FIELDS, _shaped_pointer("runner", _CONTAINER), _value("config"))
_FORMAT: Final = _struct(_always("name", ""), _pointer("version", "operator"), _value("weight"))
_PARALLELISM: Final = _struct(_pointer("tensorParallelSize", "pipelineParallelSize", "dataParallelSize"))
_ACCELERATOR_CONFIG: Final = _struct(
    _pointer("minMemoryPerBillionParams"),
    _shaped_pointer("tensorParallelismOverride", _PARALLELISM),
    _value("runtimeArgsOverride", "environmentOverride"),
)
_SUPPORTED_FORMAT: Final = _struct(
    _always("name", ""),
    _always("modelFormat", None, _FORMAT),
    _pointer("modelType", "version"),
    _shaped_pointer("modelFramework", _FORMAT),
    _pointer("modelArchitecture", "quantization", "diffusionPipeline"),
    _value("modelCacheProviders"),
    _pointer("autoSelect", "priority"),
    _shaped_value("acceleratorConfig", _map_of(_ACCELERATOR_CONFIG)),
)
_REQUIREMENTS: Final = _struct(
    _value("acceleratorClasses"),
    _pointer("minMemory", "minComputePerformanceTFLOPS", "minArchitectureVersion"),
    _value("requiredFeatures", "preferredPrecisions"),
)
_RUNTIME: Final = _struct(
    _shaped_value("supportedModelFormats", _list_of(_SUPPORTED_FORMAT)),
    _shaped_pointer("modelSizeRange", _struct(_pointer("min", "max"))),
    _pointer("disabled"),
    _shaped_pointer("routerConfig", _ROUTER),
    _shaped_pointer("engineConfig", _ENGINE),
    _shaped_pointer("decoderConfig", _ENGINE),
    _value("protocolVersions"),
    _always("containers", None, _list_of(_CONTAINER)),
    _shaped_value("volumes", _list_of(_VOLUME)),
    _value("nodeSelector"),
    _pointer("affinity"),
    _shaped_value("tolerations", _list_of(_TOLERATION)),
    _value("labels", "annotations", "imagePullSecrets", "schedulerName", "hostIPC", "dnsPolicy", "hostNetwork"),
    _pointer("scalingPolicy"),
    _shaped_pointer("acceleratorRequirements", _REQUIREMENTS),
)

# -- defaults ----------------------------------------------------------------------------------------------------------


def _fill_defaults(value: Json, key: str = "") -> Json:
    if isinstance(value, list):
        if key == "ports":
            return [{"protocol": "TCP"} | item if isinstance(item, dict) else item for item in value]
        return [_fill_defaults(item) for item in value]
    if not isinstance(value, dict):
        return value
    filled = {name: _fill_defaults(item, name) for name, item in value.items()}
    if key in ("modelFormat", "modelFramework"):
        return {"operator": "Equal", "weight": 1} | filled
    return filled
