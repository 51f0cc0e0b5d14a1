"""Rules in CEL: evaluation, messages, transitions, Kubernetes' functions."""

from __future__ import annotations

from typing import Any

import pytest

from ome.local.apiserver import cel, schema

RULES: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith('r')", "message": "the name must begin with r"}
    ],
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {"rule": "self.min <= self.max", "message": "min must not be above max"},
                {
                    "rule": "self.min >= 0",
                    "messageExpression": "'min is below zero' + (self.min < -5 ? ' by much' : ' by little')",
                    "fieldPath": ".min",
                    "reason": "FieldValueForbidden",
                },
                {"rule": "self.count % 2 == 0", "reason": "FieldValueRequired"},
                {
                    "rule": "!has(self.secret) || self.secret != 'x'",
                    "message": "no",
                    "reason": "FieldValueDuplicate",
                    "fieldPath": ".secret",
                },
            ],
            "properties": {
                "min": {"type": "integer"},
                "max": {"type": "integer"},
                "count": {"type": "integer", "default": 0},
                "secret": {"type": "string"},
                "fixed": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is immutable"}],
                },
                "grow": {
                    "type": "integer",
                    "x-kubernetes-validations": [
                        {
                            "rule": "!oldSelf.hasValue() || self >= oldSelf.value()",
                            "optionalOldSelf": True,
                            "message": "grow may only grow",
                        }
                    ],
                },
                "list": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {
                        "type": "object",
                        "required": ["k"],
                        "properties": {
                            "k": {"type": "string"},
                            "v": {
                                "type": "integer",
                                "x-kubernetes-validations": [
                                    {"rule": "self > 0", "message": "v must be positive"},
                                    {"rule": "self >= oldSelf", "message": "v may not shrink"},
                                ],
                            },
                        },
                    },
                },
                "m": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "x-kubernetes-validations": [{"rule": "self.all(k, self[k] != 'bad')", "message": "no bad value"}],
                },
                "d": {
                    "type": "string",
                    "format": "date-time",
                    "x-kubernetes-validations": [
                        {"rule": "self > timestamp('2020-01-01T00:00:00Z')", "message": "too early"}
                    ],
                },
                "p": {
                    "type": "string",
                    "format": "duration",
                    "x-kubernetes-validations": [{"rule": "self < duration('2h')", "message": "too long"}],
                },
                "x": {
                    "x-kubernetes-int-or-string": True,
                    "x-kubernetes-validations": [
                        {"rule": "type(self) == int ? self < 10 : self == 'many'", "message": "neither small nor many"}
                    ],
                },
            },
        },
    },
}
RULE = schema.compile(RULES)


def faults(spec: dict[str, Any], old: dict[str, Any] | None = None, name: str = "r1") -> list[str]:
    def whole(part: dict[str, Any]) -> dict[str, Any]:
        obj, _ = RULE.prune({"metadata": {"name": name}, "spec": {"min": 1, "max": 2, **part}})
        RULE.default(obj)
        return obj

    return [str(error) for error in RULE.validate(whole(spec), whole(old) if old is not None else None)]


_EARLY = 'spec.d: Invalid value: "2020-01-01T01:00:00.5+02:00": too early'
FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all well": ({}, []),
    "the message, without the value of an object": (
        {"min": 5, "max": 1},
        ["spec: Invalid value: min must not be above max"],
    ),
    "a message made for the case, at another place": (
        {"min": -1},
        ["spec.min: Forbidden: min is below zero by little"],
    ),
    "without a message the rule speaks": ({"count": 3}, ["spec: Required value: failed rule: self.count % 2 == 0"]),
    "a duplicate says no more": ({"secret": "x"}, ["spec.secret: Duplicate value"]),
    "several in the order of the rules": (
        {"min": -1, "max": -5, "count": 3},
        [
            "spec: Invalid value: min must not be above max",
            "spec.min: Forbidden: min is below zero by little",
            "spec: Required value: failed rule: self.count % 2 == 0",
        ],
    ),
    "inside a list the value is shown": (
        {"list": [{"k": "a", "v": 1}, {"k": "b", "v": 0}]},
        ["spec.list[1].v: Invalid value: 0: v must be positive"],
    ),
    "on a map": ({"m": {"a": "bad"}}, ["spec.m: Invalid value: no bad value"]),
    "on a time": ({"d": "2019-01-01T00:00:00Z"}, ['spec.d: Invalid value: "2019-01-01T00:00:00Z": too early']),
    "on a time with an offset": ({"d": "2020-01-01T01:00:00.5+02:00"}, [_EARLY]),
    "on a time in small letters": ({"d": "2020-01-01t01:00:00z"}, []),
    "on a duration": ({"p": "1h59m"}, []),
    "on a duration in words": ({"p": "2 hours"}, ['spec.p: Invalid value: "2 hours": too long']),
    "on a duration of small parts": ({"p": "9000000 micros"}, []),
    "on what is integer or text": ({"x": "few"}, ['spec.x: Invalid value: "few": neither small nor many']),
    "a fault of the schema hides the rules": (
        {"min": "text"},
        [
            'spec.min: Invalid value: "string": spec.min in body must be of type integer: "string"',
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
            "correct the "
            "existing errors to complete validation",
        ],
    ),
    "an absent field is an error of the rule": (
        {"min": None},
        [
            'spec: Invalid value: "object": no such key: min evaluating rule: min must not be above max',
            'spec: Invalid value: "object": no such key: min evaluating rule: self.min >= 0',
        ],
    ),
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_rules(sentence: str) -> None:
    spec, wanted = FAULTS[sentence]
    assert faults(spec) == wanted


def test_a_rule_at_the_root_stands_nowhere() -> None:
    assert faults({}, name="x1") == ["<nil>: Invalid value: the name must begin with r"]


TRANSITIONS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "immutable": ({"fixed": "f"}, {"fixed": "g"}, ['spec.fixed: Invalid value: "g": fixed is immutable']),
    "a value that was not there may come": ({}, {"fixed": "g"}, []),
    "an optional old value": ({"grow": 5}, {"grow": 4}, ["spec.grow: Invalid value: 4: grow may only grow"]),
    "an optional old value that was not there": ({}, {"grow": 4}, []),
    "elements are compared by key": (
        {"list": [{"k": "a", "v": 5}]},
        {"list": [{"k": "b", "v": 1}, {"k": "a", "v": 3}]},
        ["spec.list[1].v: Invalid value: 3: v may not shrink"],
    ),
    "what failed before and did not change is let be": ({"x": "few"}, {"x": "few", "count": 2}, []),
}


@pytest.mark.parametrize("sentence", TRANSITIONS)
def test_transitions(sentence: str) -> None:
    before, after, wanted = TRANSITIONS[sentence]
    assert faults(after, before) == wanted


EXPRESSIONS: dict[str, tuple[Any, bool]] = {
    "isQuantity(self)": ("100Mi", True),
    "isQuantity(self) == false": ("1x", True),
    "quantity(self).isGreaterThan(quantity('1000M'))": ("1Gi", True),
    "quantity(self).add(1).compareTo(quantity('3')) == 0": ("2", True),
    "isURL(self) && url(self).getScheme() == 'https'": ("https://a.example.com:8443/x", True),
    "url(self).getPort() == '8443' && url(self).getHostname() == 'a.example.com'": (
        "https://a.example.com:8443/x",
        True,
    ),
    "isIP(self) && ip(self).family() == 4 && ip(self).isLoopback()": ("127.0.0.1", True),
    "cidr(self).containsIP('10.1.2.3')": ("10.0.0.0/8", True),
    "self.find('[0-9]+') == '12'": ("ab12c3", True),
    "self.findAll('[0-9]') == ['1', '2']": ("a1b2", True),
    "self.isSorted() && self.sum() == 6 && self.max() == 3": ([1, 2, 3], True),
    "semver(self).isLessThan(semver('1.10.0'))": ("1.9.0", True),
    "format.dns1123Label().validate(self).size() == 1": ("Bad_", True),
    "self.?absent.orValue(3) == 3": ({}, True),
    "self.lowerAscii() == 'a'": ("A", True),
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_functions_of_kubernetes(expression: str) -> None:
    value, wanted = EXPRESSIONS[expression]
    program = cel.compile_rule(expression, "dyn", optional_old=False)
    assert program.evaluate({"self": value}) is wanted


def test_what_does_not_compile_is_pointed_at() -> None:
    with pytest.raises(cel.CompileError) as caught:
        cel.compile_rule("1 + 'a' == 2", "dyn", optional_old=False)
    assert str(caught.value).startswith("ERROR: <input>:1:3: found no matching overload for '_+_'")
