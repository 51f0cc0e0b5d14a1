"""CEL expressions as the API server uses them: rules of custom resources, conditions of webhooks.

A thin layer over Google's C++ implementation (`cel-expr-python`) with Kubernetes' functions, its error texts and its
escaped property names. Imported only where an expression is at hand: the package is an optional dependency. Not there:
cost estimates, macros of two variables, the authorizer; an expression with them does not compile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from ome.local.apiserver import cel_library

_TYPES: Final = {
    "dyn": cel.Type.DYN,
    "timestamp": cel.Type.TIMESTAMP,
    "duration": cel.Type.DURATION,
    "bytes": cel.Type.BYTES,
    "list": cel.Type.LIST,
}
_OPTIONAL_OLD: Final = "optionalOldSelf_"


class CompileError(ValueError):
    """An expression that does not compile; the text is the compiler's."""


class EvaluationError(ValueError):
    """An expression that fails on these values; the text is a real server's."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression. result: `BOOL`, `STRING`, ...; `DYN` when only the values will tell."""

    expression: Any
    result: str

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value for these variables. Raises EvaluationError."""
        try:
            value = self.expression.eval(data=dict(variables))
        except RuntimeError as error:
            raise EvaluationError(_evaluation_text(str(error))) from None
        if value.type().name() in ("ERROR", "UNKNOWN"):
            raise EvaluationError(_evaluation_text(str(value.plain_value())))
        return value.plain_value()


@cache
def _environment(variables: tuple[tuple[str, str], ...]) -> Any:
    extensions = [
        ext_strings.ExtStrings(),
        ext_math.ExtMath(),
        ext_optional.ExtOptional(),
        ext_bindings.ExtBindings(),
        ext_encoders.ExtEncoders(),
    ]
    return cel.NewEnv(
        variables={name: _TYPES[kind] for name, kind in variables},
        extensions=extensions,
        functions=cel_library.functions(),
    )


@lru_cache(maxsize=2048)
def compile(expression: str, variables: tuple[tuple[str, str], ...]) -> Program:
    """The program of an expression over variables of the given types (`dyn`, `timestamp`, ...). Raises CompileError."""
    try:
        compiled = _environment(variables).compile(expression)
    except RuntimeError as error:
        raise CompileError(_compile_text(str(error))) from None
    return Program(compiled, compiled.return_type().name())


def compile_rule(rule: str, self_type: str, *, optional_old: bool) -> Program:
    """The program of a rule over `self` and `oldSelf`; with `optional_old` the latter is an optional value, made from
    the list in the variable that `old_variables` fills."""
    kinds = (("self", self_type), ("oldSelf", self_type), (_OPTIONAL_OLD, "list"))
    if not optional_old:
        return compile(rule, kinds)
    value = f"{_OPTIONAL_OLD}.size() > 0 ? optional.of({_OPTIONAL_OLD}[0]) : optional.none()"
    try:
        return compile(f"cel.bind(oldSelf, {value}, {rule})", kinds)
    except CompileError:
        compile(rule, kinds)
        raise


def old_variables(old: Any, *, present: bool, optional_old: bool) -> dict[str, Any]:
    """The variables that carry the old value into a rule."""
    if optional_old:
        return {_OPTIONAL_OLD: [old] if present else []}
    return {"oldSelf": old} if present else {}


def mentions_old(rule: str) -> bool:
    """Whether a rule compares with the old value."""
    return re.search(r"\boldSelf\b", _without_texts(rule)) is not None


def _without_texts(expression: str) -> str:
    return re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", lambda match: " " * len(match[0]), expression)


def undefined_field(expression: str, known: Mapping[str, Any] | None, resolve: Any) -> tuple[int, str] | None:
    """(Column of the dot, name) of the first `self.a.b` that leaves the declared fields.

    known: what `resolve(known, name)` starts from; it returns the next level, or None when undeclared.
    """
    plain = _without_texts(expression)
    for match in re.finditer(r"(?<![\w.])(?:self|oldSelf)((?:\s*\.\s*\w+)+)(?!\s*\()", plain):
        level: Any = known
        for step in re.finditer(r"\.\s*(\w+)(?!\w*\s*\()", match[1]):
            level = resolve(level, step[1])
            if level is None:
                return match.start(1) + step.start() + 1, step[1]
            if level is ...:
                break
    return None


def compile_error(expression: str, column: int, text: str) -> str:
    """The compiler's way of pointing at a place."""
    return f"ERROR: <input>:1:{column}: {text}\n | {expression}\n | {'.' * (column - 1)}^"


def _compile_text(text: str) -> str:
    text = text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    return text.replace(" (in container '')", " (in container '')")


def _evaluation_text(text: str) -> str:
    missing = re.search(r'Key not found in map : "?([^"]*)"?', text)
    if missing is not None:
        return f"no such key: {missing[1]}"
    if "No matching overloads" in text:
        return "no such overload"
    head, _, rest = text.partition(": ")
    return rest if head.isupper() and rest else text


_ESCAPED: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_RESERVED: Final = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return",
    }
)  # fmt: skip


def escaped(name: str) -> str:
    """How an expression must spell a property, such as `__namespace__` or `x__dash__y`."""
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[.\-/]", lambda match: _ESCAPED[match[0]], name)


def with_escaped_names(value: Any) -> Any:
    """The value with its properties also under their escaped names."""
    if isinstance(value, dict):
        out = {key: with_escaped_names(item) for key, item in value.items()}
        out.update({escaped(key): item for key, item in list(out.items()) if escaped(key) != key})
        return out
    return [with_escaped_names(item) for item in value] if isinstance(value, list) else value
