"""JSON patch (RFC 6902) with the habits of a real API server.

They differ from the RFC in four places: `replace` of a missing key adds it, `test` of an absent path against null
passes, negative indices count from the end, and a failure says nothing about its cause.
"""

from __future__ import annotations

from typing import Any, Final

from ome.local.apiserver.errors import Problem, bad_request

MAX_OPERATIONS: Final = 10_000
_MEMBERS: Final = frozenset({"op", "path", "from", "value"})


class DoesNotApplyError(Exception):
    """An operation that does not apply to the document; the text says why."""


def json_patch(doc: dict[str, Any], ops: Any) -> Any:
    """The document after all operations. Raises 400 when `ops` is no list of objects, 413 for more than 10,000
    operations, and 422 with empty details when one of them does not apply."""
    if not isinstance(ops, list) or not all(isinstance(op, dict) for op in ops):
        text = f"json: cannot unmarshal {_json_kind(ops)} into Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: {text}")
    if len(ops) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}"
        raise Problem(413, "RequestEntityTooLarge", text)
    try:
        return apply_operations(doc, ops)
    except DoesNotApplyError:
        text = "the server rejected our request due to an error in our request"
        raise Problem(422, "Invalid", text, {}) from None


def apply_operations(doc: Any, ops: list[dict[str, Any]]) -> Any:
    """The same for a patch that did not come from a client, such as a webhook's. Raises DoesNotApplyError with the
    cause."""
    result = doc
    for op in ops:
        try:
            result = _apply(result, op)
        except DoesNotApplyError:
            raise DoesNotApplyError(_cause(result, op)) from None
    return result


def _cause(doc: Any, op: dict[str, Any]) -> str:
    """Why an operation failed, in the words of a real server."""
    kind, path = op.get("op"), op.get("path")
    if kind not in ("add", "remove", "replace", "move", "test", "copy"):
        return f"Unexpected kind: {kind}"
    if kind == "test":
        return f"testing value {path} failed: test failed"
    try:
        container = _container(doc, _pointer(path))
    except (DoesNotApplyError, IndexError):
        shown = path if kind == "replace" else f'"{path}"'
        return f"{kind} operation does not apply: doc is missing path: {shown}: missing value"
    if kind == "replace" or isinstance(container, list):
        return f"{kind} operation does not apply: doc is missing key: {path}: missing value"
    key = str(path).rsplit("/", 1)[-1]
    return f"error in {kind} for path: '{path}': Unable to {kind} nonexistent key: {key}: missing value"


def unknown_members(ops: Any) -> list[str]:
    """Members of operations that RFC 6902 does not know, as field validation words them: `[0].note`."""
    if not isinstance(ops, list):
        return []
    return [
        f"[{index}].{name}"
        for index, op in enumerate(ops)
        if isinstance(op, dict)
        for name in op
        if name not in _MEMBERS
    ]


def _json_kind(value: Any) -> str:
    if isinstance(value, list):
        value = next(item for item in value if not isinstance(item, dict))
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "string" if isinstance(value, str) else "number"


def _apply(doc: Any, op: dict[str, Any]) -> Any:
    path = _pointer(op.get("path"))
    kind = op.get("op")
    if kind == "add":
        return _put(doc, path, op.get("value"), insert=True)
    if kind == "replace":
        if not path:
            return op.get("value")
        return _put(doc, path, op.get("value"), insert=False)
    if kind == "remove":
        return _remove(doc, path)
    if kind == "test":
        _test(doc, path, op.get("value"))
        return doc
    if kind in ("move", "copy"):
        source = _pointer(op.get("from"))
        value = _get(_container(doc, source), source[-1]) if source else doc
        if kind == "move":
            doc = _remove(doc, source)
        return _put(doc, path, value, insert=True)
    raise DoesNotApplyError


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str):
        raise DoesNotApplyError
    if text == "":
        return []
    if not text.startswith("/"):
        raise DoesNotApplyError
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(part: str, length: int) -> int:
    try:
        index = int(part)
    except ValueError:
        raise DoesNotApplyError from None
    if index < -length or index >= length:
        raise DoesNotApplyError
    return index + length if index < 0 else index


def _get(container: Any, part: str) -> Any:
    """A member; None when an object lacks it."""
    if isinstance(container, dict):
        return container.get(part)
    if isinstance(container, list):
        return container[_index(part, len(container))]
    raise DoesNotApplyError


def _container(doc: Any, path: list[str]) -> Any:
    for part in path[:-1]:
        doc = _get(doc, part)
    if not isinstance(doc, (dict, list)):
        raise DoesNotApplyError
    return doc


def _test(doc: Any, path: list[str], expected: Any) -> None:
    found = _get(_container(doc, path), path[-1]) if path else doc
    if not _equal(found, expected):
        raise DoesNotApplyError


def _equal(left: Any, right: Any) -> bool:
    """JSON equality: `true` is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _put(doc: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    """A copy of `doc` along `path` with the value added (`insert`) or replaced."""
    if not path:
        raise DoesNotApplyError
    part, rest = path[0], path[1:]
    if isinstance(doc, dict):
        if rest and part not in doc:
            raise DoesNotApplyError
        return {**doc, part: _put(doc[part], rest, value, insert=insert) if rest else value}
    if not isinstance(doc, list):
        raise DoesNotApplyError
    copy = list(doc)
    if rest:
        index = _index(part, len(copy))
        copy[index] = _put(copy[index], rest, value, insert=insert)
    elif not insert:
        copy[_index(part, len(copy))] = value
    elif part == "-":
        copy.append(value)
    else:
        copy.insert(_index(part, len(copy) + 1), value)
    return copy


def _remove(doc: Any, path: list[str]) -> Any:
    if not path:
        raise DoesNotApplyError
    part, rest = path[0], path[1:]
    if isinstance(doc, dict):
        if part not in doc:
            raise DoesNotApplyError
        if rest:
            return {**doc, part: _remove(doc[part], rest)}
        return {key: value for key, value in doc.items() if key != part}
    if not isinstance(doc, list):
        raise DoesNotApplyError
    index = _index(part, len(doc))
    if rest:
        return [*doc[:index], _remove(doc[index], rest), *doc[index + 1 :]]
    return doc[:index] + doc[index + 1 :]
