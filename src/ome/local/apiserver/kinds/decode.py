"""Reading a body as a built-in kind: types checked, unknown fields dropped and reported, values in their stored form.

The result is what Go's types would write: empty optional fields gone, zero values of required fields there, quantities
canonical, times in UTC. Defaults of the API are not set here, but in the kinds' own modules. Called by the strategies.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from ome.local.apiserver.errors import Problem, go_quote
from ome.local.apiserver.kinds import quantities, schema_form
from ome.local.apiserver.schema import types
from ome.local.apiserver.schema.types import MISSING, Shape, TypeNode

_API: Final = "io.k8s.api."
_APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SCHEMA_PROPS: Final = _APIEXTENSIONS + "JSONSchemaProps"


class DecodeError(Problem):
    """A body that is none of its kind. `cause` is Go's JSON decoder's text, `converter` that of a strategic patch."""

    def __init__(self, kind: str, version: str, cause: str, converter: str = "") -> None:
        text = f'{kind} in version "{version}" cannot be handled as a {kind}: {cause}'
        super().__init__(400, "BadRequest", text)
        self.cause = cause
        self.converter = converter or cause


class _WrongTypeError(Exception):
    """A value of a wrong type. The structs it passes on its way up complete where it stands."""

    def __init__(self, cause: str, converter: str = "", go: str = "") -> None:
        super().__init__(cause)
        self._cause = cause
        self.converter = converter
        self._go = go
        self._owner = ""
        self._path: list[str] = []

    def pass_through(self, owner: str, field: str) -> None:
        """The struct `owner` holds it at `field`; the innermost struct is the one that is named."""
        self._owner = self._owner or owner
        self._path.append(field)

    @property
    def cause(self) -> str:
        if not self._go:
            return self._cause
        place = f"Go struct field {self._owner}.{'.'.join(reversed(self._path))}" if self._path else "Go value"
        return f"{self._cause} into {place} of type {self._go}"


def _fields(text: str) -> Mapping[str, frozenset[str]]:
    out: dict[str, set[str]] = {}
    for word in text.split():
        owner, names = word.split(":")
        out.setdefault(owner, set()).update(names.split(","))
    return {owner: frozenset(names) for owner, names in out.items()}


# Numbers and booleans that are no pointers in Go and carry `omitempty`: their zero is not written. By short definition
# name.
_ZERO_IS_UNSET: Final = _fields(
    """
    ContainerPort:hostPort Container:stdin,stdinOnce,tty EphemeralContainer:stdin,stdinOnce,tty VolumeMount:readOnly
    PodSpec:hostNetwork,hostPID,hostIPC
    Probe:initialDelaySeconds,timeoutSeconds,periodSeconds,successThreshold,failureThreshold
    DeploymentSpec:minReadySeconds,paused ReplicaSetSpec:minReadySeconds StatefulSetSpec:minReadySeconds
    DaemonSetSpec:minReadySeconds ReplicationControllerSpec:minReadySeconds
    DeploymentStatus:observedGeneration,replicas,updatedReplicas,readyReplicas,availableReplicas,unavailableReplicas
    ReplicaSetStatus:fullyLabeledReplicas,readyReplicas,availableReplicas,observedGeneration
    StatefulSetStatus:observedGeneration,readyReplicas,currentReplicas,updatedReplicas
    DaemonSetStatus:observedGeneration,updatedNumberScheduled,numberAvailable,numberUnavailable
    ReplicationControllerStatus:fullyLabeledReplicas,readyReplicas,availableReplicas,observedGeneration
    ServicePort:nodePort ServiceSpec:publishNotReadyAddresses,healthCheckNodePort
    JobStatus:active,succeeded,failed Event:count,deprecatedCount EventSeries:count
    ObjectMeta:generation NodeSpec:unschedulable HorizontalPodAutoscalerStatus:currentReplicas ScaleSpec:replicas
    PersistentVolumeClaimVolumeSource:readOnly NFSVolumeSource:readOnly PodStatus:observedGeneration
    PodCondition:observedGeneration ContainerStateTerminated:signal PriorityClass:globalDefault
    ServiceBackendPort:number CustomResourceDefinitionSpec:preserveUnknownFields
    CustomResourceDefinitionVersion:deprecated CustomResourceColumnDefinition:priority
    CustomResourceDefinitionStatus:observedGeneration CustomResourceDefinitionCondition:observedGeneration
    Condition:observedGeneration PodDisruptionBudgetStatus:observedGeneration SubjectAccessReviewStatus:denied
    TokenReviewStatus:authenticated ISCSIVolumeSource:readOnly RBDVolumeSource:readOnly
    GCEPersistentDiskVolumeSource:readOnly,partition AWSElasticBlockStoreVolumeSource:readOnly,partition
    JSONSchemaProps:exclusiveMaximum,exclusiveMinimum,nullable,uniqueItems
    JSONSchemaProps:x-kubernetes-embedded-resource,x-kubernetes-int-or-string
    """
)
# Strings that are pointers in Go: an empty one is written.
_EMPTY_IS_SET: Final = _fields(
    """
    HostPathVolumeSource:type EndpointPort:name,protocol,appProtocol ServicePort:appProtocol
    IngressSpec:ingressClassName LeaseSpec:holderIdentity,strategy,preferredHolder
    PodSpec:runtimeClassName,hostnameOverride
    PersistentVolumeClaimSpec:storageClassName,volumeAttributesClassName,volumeMode PersistentVolumeSpec:volumeMode
    ServiceSpec:ipFamilyPolicy,internalTrafficPolicy,loadBalancerClass,trafficDistribution
    Endpoint:hostname,nodeName,zone HTTPIngressPath:pathType NetworkPolicyPort:protocol
    StorageClass:reclaimPolicy,volumeBindingMode SeccompProfile:localhostProfile WebhookClientConfig:url
    ServiceReference:path MutatingWebhook:failurePolicy,matchPolicy,sideEffects,reinvocationPolicy
    ValidatingWebhook:failurePolicy,matchPolicy,sideEffects GRPCAction:service
    """
)
# Times and lists that are written as null when unset.
_NULL_WHEN_UNSET: Final[Mapping[str, tuple[str, ...]]] = {
    _API + "core.v1.Event": ("firstTimestamp", "lastTimestamp", "eventTime"),
    _API + "events.v1.Event": ("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"),
    _API + "core.v1.PodCondition": ("lastProbeTime", "lastTransitionTime"),
    _API + "core.v1.NodeCondition": ("lastHeartbeatTime", "lastTransitionTime"),
    _API + "core.v1.NamespaceCondition": ("lastTransitionTime",),
    _API + "core.v1.PersistentVolumeClaimCondition": ("lastProbeTime", "lastTransitionTime"),
    _API + "core.v1.ReplicationControllerCondition": ("lastTransitionTime",),
    _API + "core.v1.ContainerStateRunning": ("startedAt",),
    _API + "core.v1.ContainerStateTerminated": ("startedAt", "finishedAt"),
    _API + "core.v1.EventSeries": ("lastObservedTime",),
    _API + "events.v1.EventSeries": ("lastObservedTime",),
    _API + "apps.v1.DaemonSetCondition": ("lastTransitionTime",),
    _API + "apps.v1.DeploymentCondition": ("lastUpdateTime", "lastTransitionTime"),
    _API + "apps.v1.ReplicaSetCondition": ("lastTransitionTime",),
    _API + "apps.v1.StatefulSetCondition": ("lastTransitionTime",),
    _API + "autoscaling.v2.HorizontalPodAutoscalerCondition": ("lastTransitionTime",),
    _API + "batch.v1.JobCondition": ("lastProbeTime", "lastTransitionTime"),
    _APIEXTENSIONS + "CustomResourceDefinitionCondition": ("lastTransitionTime",),
    types.OBJECT_META.removesuffix("ObjectMeta") + "Condition": ("lastTransitionTime",),
    _API + "core.v1.PodSpec": ("containers",),
    _API + "discovery.v1.EndpointSlice": ("endpoints", "ports"),
    _API + "rbac.v1.Role": ("rules",),
    _API + "rbac.v1.ClusterRole": ("rules",),
    _API + "autoscaling.v2.HorizontalPodAutoscalerStatus": ("currentMetrics",),
}


class _Plan:
    """How to read one struct: its fields, which empties stay, what is filled in."""

    __slots__ = ("empty_stays", "fields", "fill", "nulls", "short", "zero_goes")

    def __init__(self, node: TypeNode) -> None:
        self.short = short = node.definition.rsplit(".", 1)[-1]
        self.fields = node.fields
        if node.definition in _UNIONS:
            self.fields = {**node.fields, **_UNIONS[node.definition]}
        self.zero_goes = _ZERO_IS_UNSET.get(short, frozenset())
        self.empty_stays = _EMPTY_IS_SET.get(short, frozenset()) | node.required
        self.nulls = _NULL_WHEN_UNSET.get(node.definition, ())
        self.fill = tuple(
            (name, child)
            for name, child in node.fields.items()
            if child.default is not MISSING and _is_written(child, name in node.required, node.definition, name)
        )


def _is_written(child: TypeNode, required: bool, definition: str, name: str) -> bool:
    """Whether a field with a default is written when unset: Go has no `omitempty` there. Defaults that are marked by
    hand on fields that may be left out are not."""
    if child.shape is Shape.STRUCT:
        return bool(child.default == {})
    if required or definition == _API + "core.v1.NodeSystemInfo":
        return True
    return not child.default and (definition.rsplit(".", 1)[-1], name) not in _MARKED_BY_HAND


_MARKED_BY_HAND: Final = frozenset(
    {
        ("LocalObjectReference", "name"), ("ConfigMapEnvSource", "name"), ("ConfigMapKeySelector", "name"),
        ("ConfigMapProjection", "name"), ("ConfigMapVolumeSource", "name"), ("SecretEnvSource", "name"),
        ("SecretKeySelector", "name"), ("SecretProjection", "name"), ("ScaleSpec", "replicas"),
        ("GRPCAction", "service"), ("FileKeySelector", "optional"), ("ReplicationControllerSpec", "minReadySeconds"),
        ("AzureDiskVolumeSource", "readOnly"),
    }
)  # fmt: skip


def _union_of(definition: str) -> TypeNode:
    node = TypeNode(Shape.ANY)
    node.definition = definition
    return node


def _map_of(element: TypeNode, go: str) -> TypeNode:
    node = TypeNode(Shape.MAP, go=go)
    node.element = element
    return node


_OR_ARRAY: Final = "JSONSchemaPropsOrArray"
_OR_BOOL: Final = "JSONSchemaPropsOrBool"
_OR_TEXTS: Final = "JSONSchemaPropsOrStringArray"
_WHOLE_SCHEMA: Final = "JSONSchemaProps"
# Members of a schema that are one thing or another.
_UNIONS: Final[Mapping[str, Mapping[str, TypeNode]]] = {
    _SCHEMA_PROPS: {
        "items": _union_of(_OR_ARRAY),
        "additionalItems": _union_of(_OR_BOOL),
        "additionalProperties": _union_of(_OR_BOOL),
        "dependencies": _map_of(_union_of(_OR_TEXTS), f"map[string]v1.{_OR_TEXTS}"),
    },
    _APIEXTENSIONS + "CustomResourceValidation": {"openAPIV3Schema": _union_of(_WHOLE_SCHEMA)},
}


@cache
def _plan(definition: str) -> _Plan:
    return _Plan(types.builtin().get(definition))


def decode(body: Any, node: TypeNode, *, kind: str, version: str) -> tuple[dict[str, Any], list[str]]:
    """(The object as a kind of that type stores it, unknown field paths in the order met). Raises DecodeError."""
    unknown: list[str] = []
    if not isinstance(body, dict):
        text = f"json: cannot unmarshal {_json_kind(body)} into Go value of type v1.{kind}"
        raise DecodeError(kind, version, text)
    try:
        return _struct(body, node, unknown), unknown
    except _WrongTypeError as error:
        raise DecodeError(kind, version, error.cause, error.converter) from None
    except quantities.QuantityError as error:
        raise DecodeError(kind, version, str(error)) from None


def _json_kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        return "number"
    return "array" if isinstance(value, list) else "object"


_REFLECT: Final = {dict: "map", list: "slice", str: "string", bool: "bool", int: "int64", float: "float64"}


def _wrong(value: Any, go: str) -> _WrongTypeError:
    number = ""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and go.startswith(("int", "uint")):
        number = f" {value}"
    kind = _REFLECT.get(type(value), "invalid")
    if go.startswith("[]"):
        converter = f"cannot restore slice from {kind}"
    elif go.startswith("map["):
        converter = f"cannot restore map from {kind}"
    elif go.startswith("v1."):
        converter = f"cannot restore struct from: {kind}"
    else:
        converter = f"unrecognized type: {go}"
    return _WrongTypeError(f"json: cannot unmarshal {_json_kind(value)}{number}", converter, go)


_SCALAR: Final = Shape.SCALAR
_STRUCT: Final = Shape.STRUCT
_LIST: Final = Shape.LIST
_MAP: Final = Shape.MAP
_ANY: Final = Shape.ANY


def _struct(value: dict[str, Any], node: TypeNode, unknown: list[str]) -> dict[str, Any]:
    plan = _plan(node.definition)
    fields = plan.fields
    out: dict[str, Any] = {}
    name = ""
    try:
        for name, raw in value.items():
            child = fields.get(name)
            if child is None:
                unknown.append(name)
                continue
            if raw is None:
                continue
            shape = child.shape
            if shape is _SCALAR:
                decoded = raw if raw.__class__ is str and child.scalar == "string" else _scalar(raw, child)
                if decoded == "" and child.scalar != "byte":
                    if name not in plan.empty_stays:
                        continue
                elif not decoded and name in plan.zero_goes:
                    continue
                out[name] = decoded
                continue
            known = len(unknown)
            decoded = _value(raw, child, unknown)
            if len(unknown) > known:
                _place(unknown, known, name)
            if not decoded and shape is not _STRUCT and shape is not _ANY and name not in plan.empty_stays:
                continue
            out[name] = decoded
    except _WrongTypeError as error:
        error.pass_through(plan.short, name)
        raise
    for name, child in plan.fill:
        if name not in out:
            out[name] = _struct({}, child, unknown) if child.shape is _STRUCT else child.default
    for name in plan.nulls:
        out.setdefault(name, None)
    return out


def _place(unknown: list[str], start: int, prefix: str) -> None:
    """Say of the fields found since `start` where they stand. Paths are made only for what is unknown."""
    for position in range(start, len(unknown)):
        found = unknown[position]
        unknown[position] = f"{prefix}{found}" if found.startswith("[") else f"{prefix}.{found}"


def _value(raw: Any, node: TypeNode, unknown: list[str]) -> Any:
    shape = node.shape
    if shape is _STRUCT:
        if raw is None:
            raw = {}
        if not isinstance(raw, dict):
            raise _wrong(raw, node.go)
        return _struct(raw, node, unknown)
    if shape is _LIST:
        return _list(raw, node, unknown)
    if shape is _MAP:
        return _map(raw, node, unknown)
    if shape is _SCALAR:
        return _zero(node) if raw is None else _scalar(raw, node)
    return _union(raw, node.definition, unknown) if node.definition.startswith("JSONSchemaProps") else raw


def _union(raw: Any, definition: str, unknown: list[str]) -> Any:
    schema = types.builtin().get(_SCHEMA_PROPS)
    if definition == _WHOLE_SCHEMA:
        return raw if schema_form.is_stored_form(raw) else _value(raw, schema, unknown)
    if isinstance(raw, dict):
        return _value(raw, schema, unknown)
    if definition == _OR_BOOL:
        if isinstance(raw, bool):
            return raw
        raise _WrongTypeError("boolean or JSON schema expected")
    if not isinstance(raw, list):
        return None
    element = schema if definition == _OR_ARRAY else TypeNode(Shape.SCALAR, scalar="string", go="string")
    return [_value(item, element, unknown) for item in raw]


def _list(raw: Any, node: TypeNode, unknown: list[str]) -> list[Any]:
    if not isinstance(raw, list):
        raise _wrong(raw, node.go)
    element = node.element or types.ANY
    out = []
    for index, item in enumerate(raw):
        known = len(unknown)
        out.append(_value(item, element, unknown))
        if len(unknown) > known:
            _place(unknown, known, f"[{index}]")
    return out


def _map(raw: Any, node: TypeNode, unknown: list[str]) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise _wrong(raw, node.go)
    element = node.element or types.ANY
    out = {}
    for key, item in raw.items():
        known = len(unknown)
        out[key] = _value(item, element, unknown)
        if len(unknown) > known:
            _place(unknown, known, key)
    return out


def _zero(node: TypeNode) -> Any:
    scalar = node.scalar
    if scalar.startswith("int") and scalar != "int-or-string":
        return 0
    return {"boolean": False, "number": 0, "int-or-string": 0, "quantity": "0", "time": None, "microtime": None}.get(
        scalar, ""
    )


_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def _scalar(raw: Any, node: TypeNode) -> Any:
    scalar = node.scalar
    if scalar == "string":
        if isinstance(raw, str):
            return raw
        raise _wrong(raw, "string")
    if scalar in _RANGES:
        low, high = _RANGES[scalar]
        if isinstance(raw, int) and not isinstance(raw, bool) and low <= raw <= high:
            return raw
        raise _wrong(raw, scalar)
    if scalar == "boolean":
        if isinstance(raw, bool):
            return raw
        raise _wrong(raw, "bool")
    if scalar == "quantity":
        return quantities.canonical(raw)
    if scalar == "int-or-string":
        if isinstance(raw, str):
            return raw
        if isinstance(raw, int) and not isinstance(raw, bool) and -(2**31) <= raw < 2**31:
            return raw
        raise _WrongTypeError(f"json: cannot unmarshal {_json_kind(raw)} into Go value of type int32")
    if scalar in ("time", "microtime"):
        return _time(raw, micro=scalar == "microtime")
    if scalar == "byte":
        return _bytes(raw)
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return raw
    raise _wrong(raw, node.go)


def _bytes(raw: Any) -> str:
    if not isinstance(raw, str):
        raise _wrong(raw, "[]uint8")
    try:
        decoded = base64.b64decode(raw.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        bad = re.search(r"[^A-Za-z0-9+/=\r\n]", raw)
        position = bad.start() if bad else len(raw) // 4 * 4
        raise _WrongTypeError(f"illegal base64 data at input byte {position}") from None
    return base64.b64encode(decoded).decode()


_TIME: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)")


def _time(raw: Any, *, micro: bool) -> str | None:
    layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
    if not isinstance(raw, str):
        raise _WrongTypeError(f"json: cannot unmarshal {_json_kind(raw)} into Go value of type string")
    match = _TIME.fullmatch(raw)
    if match is None or (micro and len(match[7] or "") != 6):
        rest = raw[19:] if match is not None else raw
        wanted = ".000000" if match is not None else "2006"
        raise _WrongTypeError(
            f"parsing time {go_quote(raw)} as {go_quote(layout)}: cannot parse {go_quote(rest)} as {go_quote(wanted)}"
        )
    try:
        moment = datetime.fromisoformat(raw[:19] + match[8].replace("Z", "+00:00")).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _WrongTypeError(f"parsing time {go_quote(raw)}: out of range") from None
    text = moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{text}.{match[7]}Z" if micro else f"{text}Z"


def decode_field(
    value: Any, field: str, node: TypeNode, *, kind: str, version: str
) -> tuple[dict[str, Any], list[str]]:
    """The same for one struct of an object, such as the metadata of a custom one. Raises DecodeError."""
    unknown: list[str] = []
    if value is None:
        return {}, unknown
    try:
        if not isinstance(value, dict):
            raise _wrong(value, node.go)
        out = _struct(value, node, unknown)
    except _WrongTypeError as error:
        error.pass_through(kind, field)
        raise DecodeError(kind, version, error.cause, error.converter) from None
    _place(unknown, 0, field)
    return out, unknown
