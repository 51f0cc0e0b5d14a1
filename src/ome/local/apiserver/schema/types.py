"""The types of objects as a tree: structs, maps, lists and scalars, with what ownership and patches need to know.

Built lazily from the OpenAPI definitions of the built-in kinds (`Registry`) or from the structural schema of a custom
resource (`from_structural`). Pure; shared by decoding, server-side apply and the strategic merge patch. It is not the
validation of custom objects: that is `schema.structural`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

from ome.api import kubernetes

_REF: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
OBJECT_META: Final = _META + "ObjectMeta"
_SPECIAL: Final[Mapping[str, str]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    _META + "Time": "time",
    _META + "MicroTime": "microtime",
}
_GO_SPECIAL: Final[Mapping[str, str]] = {
    "quantity": "resource.Quantity",
    "int-or-string": "intstr.IntOrString",
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
    "byte": "[]uint8",
    "double": "float64",
}


class Shape(Enum):
    STRUCT = "struct"
    MAP = "map"
    LIST = "list"
    SCALAR = "scalar"
    ANY = "any"


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""As `default`: the schema gives none."""


class TypeNode:
    """One position in an object.

    scalar: `string`, `boolean`, `int32`, `int64`, `number`, `byte`, `time`, `microtime`, `quantity`, `int-or-string` or
    `untyped`. list_type: `atomic`, `set` or `map`. default: the schema's default of this very property, or MISSING; for
    a built-in struct `{}` says that the Go field is no pointer. open: unknown fields of a struct are kept, untyped.
    """

    __slots__ = (
        "_fields",
        "_load",
        "atomic",
        "default",
        "definition",
        "element",
        "go",
        "keys",
        "list_type",
        "merge_key",
        "open",
        "required",
        "scalar",
        "shape",
        "strategies",
    )

    def __init__(self, shape: Shape, *, scalar: str = "", go: str = "interface {}") -> None:
        self.shape = shape
        self.scalar = scalar
        self.go = go
        self.definition = ""
        self.element: TypeNode | None = None
        self.list_type = "atomic"
        self.keys: tuple[str, ...] = ()
        self.atomic = False
        self.merge_key = ""
        self.strategies: frozenset[str] = frozenset()
        self.default: Any = MISSING
        self.required: frozenset[str] = frozenset()
        self.open = False
        self._fields: dict[str, TypeNode] | None = None
        self._load: Callable[[], dict[str, TypeNode]] | None = None

    @property
    def fields(self) -> Mapping[str, TypeNode]:
        """The properties of a struct, built when first asked for (definitions may refer to themselves)."""
        if self._fields is None:
            self._fields = self._load() if self._load is not None else {}
        return self._fields

    def child(self, name: str) -> TypeNode | None:
        """The type of a member: a struct's field, a map's element; None when it is not declared."""
        if self.shape is Shape.STRUCT:
            found = self.fields.get(name)
            return found if found is not None or not self.open else ANY
        if self.shape is Shape.MAP:
            return self.element
        return ANY if self.shape is Shape.ANY else None

    def copy(self) -> TypeNode:
        other = TypeNode(self.shape, scalar=self.scalar, go=self.go)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        if self._fields is None and self._load is not None:
            other._load = lambda: dict(self.fields)
        return other


ANY: Final = TypeNode(Shape.ANY)


def _overlay(node: TypeNode, prop: Mapping[str, Any]) -> TypeNode:
    """What a property says beside its `$ref`: its default and its merge rules."""
    extensions = [key for key in prop if key == "default" or key.startswith("x-kubernetes-")]
    if not extensions:
        return node
    node = node.copy()
    if "default" in prop:
        node.default = prop["default"]
    if "x-kubernetes-map-type" in prop:
        node.atomic = prop["x-kubernetes-map-type"] == "atomic"
    if strategy := prop.get("x-kubernetes-patch-strategy"):
        node.strategies = frozenset(strategy.split(","))
    if key := prop.get("x-kubernetes-patch-merge-key"):
        node.merge_key = key
    if list_type := prop.get("x-kubernetes-list-type"):
        node.list_type = list_type
        node.keys = tuple(prop.get("x-kubernetes-list-map-keys", ()))
    return node


class Registry:
    """Types of the OpenAPI definitions by name. One per set of definitions; nodes are shared and never changed."""

    def __init__(self, definitions: Mapping[str, Mapping[str, Any]]) -> None:
        self._definitions = definitions
        self._nodes: dict[str, TypeNode] = {}

    def get(self, name: str) -> TypeNode:
        """The type of a definition such as `io.k8s.api.core.v1.Pod`; ANY when there is none."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = self._define(name)
        return node

    def _define(self, name: str) -> TypeNode:
        if name in _SPECIAL:
            scalar = _SPECIAL[name]
            return TypeNode(Shape.SCALAR, scalar=scalar, go=_GO_SPECIAL[scalar])
        schema = self._definitions.get(name)
        if schema is None:
            return ANY
        node = self._plain(schema)
        if node.shape is Shape.STRUCT:
            node.definition = name
            node.go = "v1." + name.rsplit(".", 1)[1] if ".v1." in name else ".".join(name.rsplit(".", 2)[1:])
        return node

    def _property(self, prop: Mapping[str, Any]) -> TypeNode:
        ref = prop.get("$ref")
        if ref is None and len(prop.get("allOf", ())) == 1:
            ref = prop["allOf"][0].get("$ref")
        if ref is not None:
            return _overlay(self.get(ref.removeprefix(_REF)), prop)
        return _overlay(self._plain(prop), prop)

    def _plain(self, schema: Mapping[str, Any]) -> TypeNode:
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            node = TypeNode(Shape.LIST)
            node.element = self._property(schema.get("items", {}))
            node.go = "[]" + node.element.go
            return node
        if kind is None:
            return ANY
        scalar = {"integer": schema.get("format", "int64"), "string": "string"}.get(kind, kind)
        if kind == "string" and schema.get("format") == "byte":
            scalar = "byte"
        return TypeNode(Shape.SCALAR, scalar=scalar, go=_go_scalar(scalar))

    def _object(self, schema: Mapping[str, Any]) -> TypeNode:
        properties = schema.get("properties")
        if properties is not None:
            node = TypeNode(Shape.STRUCT)
            node._load = lambda: {name: self._property(prop) for name, prop in properties.items()}
            node.required = frozenset(schema.get("required", ()))
            node.atomic = schema.get("x-kubernetes-map-type") == "atomic"
            return node
        values = schema.get("additionalProperties")
        if not isinstance(values, Mapping):
            return ANY
        node = TypeNode(Shape.MAP)
        node.element = self._property(values)
        node.go = "map[string]" + node.element.go
        return node


def _go_scalar(scalar: str) -> str:
    return {"boolean": "bool", "number": "float64", "byte": "[]uint8"}.get(scalar, scalar)


@cache
def builtin() -> Registry:
    """The registry of the built-in kinds."""
    return Registry(kubernetes.definitions())


@cache
def kind_definitions() -> Mapping[tuple[str, str, str], str]:
    """(group, version, kind) -> definition name."""
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, schema in kubernetes.definitions().items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
    }


def of_kind(group: str, version: str, kind: str) -> TypeNode:
    """The type of a built-in kind; ANY when it is unknown."""
    name = kind_definitions().get((group, version, kind))
    return builtin().get(name) if name is not None else ANY


def from_structural(schema: Mapping[str, Any]) -> TypeNode:
    """The type of a custom resource from its (root) structural schema, with typed metadata."""
    return _structural(schema, root=True)


def _structural(schema: Mapping[str, Any], *, root: bool = False) -> TypeNode:
    node = _structural_plain(schema, root=root or bool(schema.get("x-kubernetes-embedded-resource")))
    if "default" in schema:
        node = node.copy()
        node.default = schema["default"]
    return node


def _structural_plain(schema: Mapping[str, Any], *, root: bool) -> TypeNode:
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return TypeNode(Shape.SCALAR, scalar="int-or-string", go="intstr.IntOrString")
    if kind == "array":
        node = TypeNode(Shape.LIST)
        node.element = _structural(schema.get("items") or {})
        node.list_type = schema.get("x-kubernetes-list-type", "atomic")
        node.keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        return node
    if kind == "object" or (kind is None and "properties" in schema):
        return _structural_object(schema, root=root)
    if kind is None:
        return ANY
    scalar = {"integer": "integer"}.get(kind, kind)
    return TypeNode(Shape.SCALAR, scalar=scalar, go=_go_scalar(scalar))


def _structural_object(schema: Mapping[str, Any], *, root: bool) -> TypeNode:
    values = schema.get("additionalProperties")
    properties = schema.get("properties")
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    if isinstance(values, Mapping):
        node = TypeNode(Shape.MAP)
        node.element = _structural(values)
        node.atomic = atomic
        return node
    open_ = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or values is True
    if not properties and open_ and not root:
        node = TypeNode(Shape.MAP)
        node.element = ANY
        node.atomic = atomic
        return node
    node = TypeNode(Shape.STRUCT)
    node.open = open_
    node.atomic = atomic
    node.required = frozenset(schema.get("required", ()))

    def load() -> dict[str, TypeNode]:
        fields = {name: _structural(prop) for name, prop in (properties or {}).items()}
        if root:
            text = TypeNode(Shape.SCALAR, scalar="string", go="string")
            fields.update(apiVersion=text, kind=text, metadata=builtin().get(OBJECT_META))
        return fields

    node._load = load
    return node
