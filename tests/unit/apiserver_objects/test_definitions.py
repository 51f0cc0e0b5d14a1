"""Custom resource definitions: defaults and refusals."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ome.local.apiserver import kinds
from ome.local.apiserver.definitions import quick, schemas
from ome.local.apiserver.kinds import decode, schema_form
from ome.local.apiserver.schema import types

from .support import PROPERTY, identified, texts

GROUP = "apiextensions.k8s.io"
ROOT = "spec.validation.openAPIV3Schema"


def definition(schema: Any = None, **spec: Any) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or {"type": "object"}},
    }
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
            **spec,
        },
    }


def new(body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    strategy = kinds.strategy(GROUP, "v1", "CustomResourceDefinition")
    obj, unknown = strategy.decode(body)
    assert unknown == []
    identified(obj, GROUP, "v1", "CustomResourceDefinition")
    strategy.default(obj)
    strategy.prepare_create(obj)
    return obj, texts(strategy.validate_create(obj))


def spec_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": schema}}


def test_names_and_conversion_follow() -> None:
    obj, errors = new(definition())
    assert errors == []
    assert obj["spec"]["names"] == {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"}
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    assert obj["status"] == {
        "acceptedNames": {"kind": "", "plural": ""},
        "conditions": None,
        "storedVersions": ["v1"],
    }
    assert obj["metadata"]["generation"] == 1


S = f"{ROOT}.properties[spec]"
SCHEMAS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a type at the root": ({"properties": {}}, [f"{ROOT}.type: Required value: must not be empty at the root"]),
    "an object at the root": (
        {"type": "string"},
        [f'{ROOT}.type: Invalid value: "string": must be object at the root'],
    ),
    "a type for every field": (
        spec_of({"properties": {"a": {"type": "string"}}}),
        [f"{S}.type: Required value: must not be empty for specified object fields"],
    ),
    "items for an array": (spec_of({"type": "array"}), [f"{S}.items: Required value: must be specified"]),
    "a type that exists": (
        spec_of({"type": "text"}),
        [
            f'{S}.type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", '
            f'"object", '
            '"string"'
        ],
    ),
    "one schema for items": (
        spec_of({"type": "array", "items": [{"type": "string"}]}),
        [f"{S}.items: Forbidden: items must be a schema object and not an array"],
    ),
    "fields or a map": (
        spec_of(
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}
        ),
        [f"{S}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    ),
    "no unique items": (
        spec_of({"type": "array", "uniqueItems": True, "items": {"type": "string"}}),
        [
            f"{S}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes "
            f"quadratic"
        ],
    ),
    "no structure below anyOf": (
        spec_of({"type": "object", "anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]}),
        [
            f"{S}.anyOf[0].properties[a].type: Forbidden: must be empty to be structural",
            f"{S}.anyOf[0].type: Forbidden: must be empty to be structural",
        ],
    ),
    "no references": (spec_of({"$ref": "#/x"}), [f"{S}.$ref: Forbidden: $ref is not supported"]),
    "metadata is the API's": (
        {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
        },
        [
            f"{ROOT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified"
        ],
    ),
    "a keyed list has keys": (
        spec_of(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "items": {"type": "object", "properties": {"k": {"type": "string"}}},
            }
        ),
        [f"{S}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
    ),
    "a key is required or has a default": (
        spec_of(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}},
            }
        ),
        [
            f"{S}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so "
            f"it must "
            "have a default or be a required property"
        ],
    ),
    "a list type that exists": (
        spec_of({"type": "array", "x-kubernetes-list-type": "bag", "items": {"type": "string"}}),
        [f'{S}.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"'],
    ),
    "a default of its type": (
        spec_of({"type": "object", "properties": {"n": {"type": "integer", "default": "x"}}}),
        [
            f'{S}.properties[n].default: Invalid value: "string":  in body must be of type integer: "string"',
        ],
    ),
    "a default of known fields": (
        spec_of({"type": "object", "properties": {"n": {"type": "integer"}}, "default": {"m": 1}}),
        [f'{S}.default: Invalid value: {{"m":1}}: must not have unknown fields'],
    ),
    "no default in metadata": (
        {"type": "object", "properties": {"metadata": {"type": "object", "default": {}}}},
        [f"{ROOT}.properties[metadata].default: Forbidden: must not be set in top-level metadata"],
    ),
    "a pattern that can be read": (
        spec_of({"type": "string", "pattern": "("}),
        [
            f'{S}.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing regexp: '
            f"missing "
            "closing ): `(`"
        ],
    ),
    "an embedded object is an object with fields": (
        spec_of({"type": "string", "x-kubernetes-embedded-resource": True}),
        [
            f"{S}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields",
            f'{S}.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true',
        ],
    ),
    "integer or text may have a type": (spec_of({"type": "string", "x-kubernetes-int-or-string": True}), []),
}


@pytest.mark.parametrize("sentence", SCHEMAS)
def test_schemas(sentence: str) -> None:
    schema, wanted = SCHEMAS[sentence]
    assert new(definition(schema))[1] == wanted


def ruled(**rule: Any) -> dict[str, Any]:
    return definition(
        spec_of({"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [rule]})
    )


RULES: dict[str, tuple[dict[str, Any], str]] = {
    "a rule is not empty": ({"rule": ""}, ".rule: Required value: rule is not specified"),
    "a rule names fields that exist": (
        {"rule": "self.m > 1"},
        "compilation failed: ERROR: <input>:1:5: undefined field 'm'\n | self.m > 1\n | ....^",
    ),
    "a rule is true or false": ({"rule": "self.n + 1"}, "cel expression must evaluate to a bool"),
    "a reason is one of four": ({"rule": "true", "reason": "Whim"}, '.reason: Unsupported value: "Whim"'),
    "a path leads to a field": (
        {"rule": "true", "fieldPath": ".zz"},
        '.fieldPath: Invalid value: ".zz": must be a valid path',
    ),
}


@pytest.mark.parametrize("sentence", RULES)
def test_rules(sentence: str) -> None:
    rule, wanted = RULES[sentence]
    errors = new(ruled(**rule))[1]
    assert len(errors) == 1
    assert wanted in errors[0]
    assert errors[0].startswith(f"{S}.x-kubernetes-validations[0]")


def test_a_good_rule_is_accepted() -> None:
    assert new(ruled(rule="self.n >= 0 && self.n < 10", message="m"))[1] == []


WHOLE: dict[str, tuple[dict[str, Any], list[str]]] = {
    "the name is the plural and the group": (
        {**definition(), "metadata": {"name": "other.example.com"}},
        ['metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group'],
    ),
    "a scope is one of two": (
        definition(scope="Galaxy"),
        ['spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"'],
    ),
    "a schema is required": (
        definition(versions=[{"name": "v1", "served": True, "storage": True}]),
        ["spec.versions[0].schema.openAPIV3Schema: Required value"],
    ),
    "unknown fields are kept by schema only": (
        definition(preserveUnknownFields=True),
        [
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
            "x-kubernetes-preserve-unknown-fields to "
            "true in spec.versions[*].schema instead"
        ],
    ),
    "a webhook converts only with a client": (
        definition(conversion={"strategy": "Webhook"}),
        [
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
            "spec.conversion.conversionReviewVersions: Required value",
        ],
    ),
}


@pytest.mark.parametrize("sentence", WHOLE)
def test_definitions(sentence: str) -> None:
    body, wanted = WHOLE[sentence]
    assert new(body)[1] == wanted


def test_one_version_is_stored() -> None:
    versions = [{**definition()["spec"]["versions"][0], "name": name} for name in ("v1", "v2")]
    errors = new(definition(versions=versions))[1]
    assert [error.rsplit(": ", 1)[1] for error in errors] == [
        "must have exactly one version marked as storage version",
        "must have the storage version v2",
    ]


def test_the_project_s_groups_need_approval() -> None:
    body = definition(group="x.k8s.io")
    body["metadata"]["name"] = "things.x.k8s.io"
    assert new(body)[1] == [
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval "
        "annotation "
        '"api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111'
    ]
    body["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/1"}
    assert new(body)[1] == []


def test_unknown_members_of_a_schema_are_named() -> None:
    strategy = kinds.strategy(GROUP, "v1", "CustomResourceDefinition")
    _, unknown = strategy.decode(definition(spec_of({"type": "object", "maxWidth": 3})))
    assert unknown == ["spec.versions[0].schema.openAPIV3Schema.properties.spec.maxWidth"]


def test_an_established_definition_keeps_its_kind() -> None:
    strategy = kinds.strategy(GROUP, "v1", "CustomResourceDefinition")
    old, _ = new(definition())
    old["metadata"]["resourceVersion"] = "1"
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    obj = copy.deepcopy(old)
    obj["spec"]["names"]["kind"] = "Other"
    strategy.prepare_update(obj, old)
    assert texts(strategy.validate_update(obj, old)) == ['spec.names.kind: Invalid value: "Other": field is immutable']


def test_an_update_needs_the_version_of_what_it_replaces() -> None:
    strategy = kinds.strategy(GROUP, "v1", "CustomResourceDefinition")
    old, _ = new(definition())
    obj = copy.deepcopy(old)
    assert texts(strategy.validate_update(obj, old)) == [
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    ]


@pytest.mark.parametrize("sentence", [sentence for sentence, case in SCHEMAS.items() if case[1]])
def test_the_fast_look_lets_no_fault_pass(sentence: str) -> None:
    assert not quick.is_sound(SCHEMAS[sentence][0])


LEAF = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "boolean", "number", "object", "array", "text"])},
    optional={
        "default": st.sampled_from(["x", 1, True, {}, [], 1.5]),
        "enum": st.just(["x", "y"]),
        "nullable": st.booleans(),
        "pattern": st.sampled_from(["^a$", "("]),
        "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic", "bag"]),
        "x-kubernetes-map-type": st.sampled_from(["atomic", "loose"]),
        "x-kubernetes-preserve-unknown-fields": st.booleans(),
        "required": st.just(["a"]),
        "oneOf": st.just([{"required": ["a"]}]),
        "uniqueItems": st.booleans(),
    },
)
SCHEMA = st.recursive(
    LEAF,
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "array"])},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b", "metadata", "kind"]), inner, max_size=2),
            "items": inner,
            "additionalProperties": inner | st.booleans(),
            "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic"]),
            "x-kubernetes-list-map-keys": st.just(["a"]),
            "default": st.just({}),
        },
    ),
    max_leaves=6,
)


@PROPERTY
@given(st.dictionaries(st.sampled_from(["spec", "metadata", "kind"]), SCHEMA, max_size=2))
def test_what_the_fast_look_passes_has_no_fault(properties: dict[str, Any]) -> None:
    root = {"type": "object", "properties": properties}
    if quick.is_sound(root):
        assert schemas.slow_faults(root, ROOT) == []


MEMBERS = st.recursive(
    st.dictionaries(
        st.sampled_from(["type", "nullable", "maxLength", "enum", "required", "default", "oops", "minimum"]),
        st.sampled_from(["text", "", 0, 1.5, True, False, [], ["a"], [1], {}, None]),
        max_size=2,
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["oops", "type"]), inner, max_size=2),
            "items": inner | st.lists(inner, max_size=1) | st.just("text"),
            "additionalProperties": inner | st.booleans() | st.just("text"),
            "not": inner,
            "anyOf": st.lists(inner, max_size=2),
            "x-kubernetes-validations": st.lists(
                st.dictionaries(
                    st.sampled_from(["rule", "oops", "message"]), st.sampled_from(["x", "", 1]), max_size=2
                ),
                max_size=2,
            ),
            "oops": inner,
        },
    ),
    max_leaves=6,
)


@PROPERTY
@given(MEMBERS)
def test_a_schema_in_stored_form_is_what_decoding_makes_of_it(schema: dict[str, Any]) -> None:
    type_ = types.builtin().get("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    if schema_form.is_stored_form(schema):
        assert decode.decode(schema, type_, kind="K", version="v1") == (schema, [])


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "properties that are a text": ({"properties": "x"}, "json: cannot unmarshal string into Go struct field "),
    "a property that is a list": ({"properties": {"a": []}}, "json: cannot unmarshal array into Go struct field "),
    "a rule that is an object": (
        {"x-kubernetes-validations": [{"rule": {}}]},
        "json: cannot unmarshal object into Go struct field ValidationRule.",
    ),
    "a rule that is a list": ({"x-kubernetes-validations": [[]]}, "json: cannot unmarshal array into Go struct field "),
    "values that are neither": ({"additionalProperties": 1}, "boolean or JSON schema expected"),
    "a key that is no text": ({"x-kubernetes-list-map-keys": [[]]}, "json: cannot unmarshal array into Go struct "),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_schema_of_wrong_types_is_no_definition(sentence: str) -> None:
    schema, cause = WRONG[sentence]
    with pytest.raises(decode.DecodeError) as caught:
        new(definition({"type": "object", "properties": {"spec": {"type": "object", **schema}}}))
    assert caught.value.cause.startswith(cause)


def test_what_a_schema_leaves_empty_is_not_stored() -> None:
    spec = {"type": "object", "nullable": False, "description": "", "properties": {"a": None, "b": {"maxLength": 0}}}
    obj, _ = kinds.strategy(GROUP, "v1", "CustomResourceDefinition").decode(
        definition({"type": "object", "properties": {"spec": spec}})
    )
    (version,) = obj["spec"]["versions"]
    found = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert found == {"type": "object", "properties": {"a": {}, "b": {"maxLength": 0}}}
