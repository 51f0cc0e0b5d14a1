"""Calling admission webhooks: reviews, patches, refusals, failure policies, reinvocation.

The dispatcher knows no HTTP, no store and no clock: how to send, where a Service lives, what a namespace is labelled
are injected. It answers to the protocol `ome.local.apiserver.admission.Hooks`; which webhooks concern a request is
`hook_matching.py`. Not there: audit annotations.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from ome.local.apiserver import hook_matching, patches
from ome.local.apiserver.errors import Problem, bad_request, forbidden, go_quote, internal_error
from ome.local.apiserver.hook_matching import ConditionError, Object
from ome.local.apiserver.registry import ResourceType

if TYPE_CHECKING:
    from ome.local.apiserver.admission import Attributes

Send = Callable[[str, bytes, bytes, float], Awaitable[tuple[int, bytes]]]
"""(url, CA bundle in PEM or empty, body, timeout in seconds) -> (status, body). Raises SendError."""
Resolve = Callable[[str, str, int], str]
"""(namespace, name, port) of a Service -> the base URL to call, `https://127.0.0.1:9443`. Raises SendError."""
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_LITERAL_NO_OBJECT: Final = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct "
    '{{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }}'
)


class SendError(Exception):
    """A webhook that could not be reached; the text says why, e.g. `dial tcp 127.0.0.1:1: connect: connection
    refused`."""


@dataclass(frozen=True)
class World:
    """What the dispatcher asks of the server.

    mutating, validating: the configurations of today, sorted by name. namespace_labels: of a namespace; None when it
    does not exist. decode: an object changed by a patch, read and defaulted again as its kind. equivalents: other
    served types of the same objects. convert: an object in another of them. new_uid: for a review. base64 CA bundles
    are decoded here.
    """

    mutating: Callable[[], Sequence[Object]]
    validating: Callable[[], Sequence[Object]]
    namespace_labels: Callable[[str], Mapping[str, str] | None]
    decode: Callable[[Attributes, Object], Object]
    new_uid: Callable[[], str]
    equivalents: Callable[[ResourceType], Sequence[ResourceType]] = field(default=lambda _type: ())
    convert: Callable[[Object, ResourceType, ResourceType], Object] = field(
        default=lambda obj, _source, target: {**obj, "apiVersion": target.api_version}
    )


@dataclass(frozen=True)
class _Hook:
    """One webhook that concerns the request, with the resource type under which it does."""

    source: Mapping[str, Any]
    configuration: str
    type: ResourceType

    @property
    def name(self) -> str:
        return str(self.source.get("name", ""))

    @property
    def identity(self) -> tuple[str, str]:
        return self.configuration, self.name

    @property
    def ignores_failure(self) -> bool:
        return bool(self.source.get("failurePolicy", "Fail") == "Ignore")

    @property
    def reinvoked(self) -> bool:
        return bool(self.source.get("reinvocationPolicy", "Never") == "IfNeeded")

    @property
    def timeout(self) -> int:
        return int(self.source.get("timeoutSeconds", 10))

    @property
    def review_version(self) -> str:
        listed = self.source.get("admissionReviewVersions") or ["v1"]
        return next((version for version in listed if version in _REVIEW_VERSIONS), "v1")


class _CallError(Exception):
    """A call that failed; the failure policy decides."""


class Dispatcher:
    """Sends requests to the webhooks that they concern."""

    def __init__(self, world: World, send: Send, resolve: Resolve) -> None:
        self._world = world
        self._send = send
        self._resolve = resolve

    async def mutate(
        self, attributes: Attributes, obj: Object | None, old: Object | None, warnings: list[str]
    ) -> Object | None:
        """The object after all mutating webhooks, one after the other; those that ask for it are called once more when
        a later one changed the object. Raises Problem when one refuses. Without an object (DELETE) the answer is
        None."""
        if hook_matching.is_exempt(attributes.type):
            return obj
        configurations = self._world.mutating()
        left: dict[tuple[str, str], Object | None] = {}
        for configuration, source in _each(configurations):
            hook = self._concerned(source, configuration, attributes, obj, old)
            if hook is None:
                continue
            obj = await self._mutate_once(hook, attributes, obj, old, warnings)
            if hook.reinvoked:
                left[hook.identity] = obj
        for configuration, source in _each(configurations):
            identity = (configuration, str(source.get("name", "")))
            if identity not in left or left[identity] == obj:
                continue
            hook = self._concerned(source, configuration, attributes, obj, old)
            if hook is not None:
                obj = await self._mutate_once(hook, attributes, obj, old, warnings)
        return obj

    async def _mutate_once(
        self, hook: _Hook, attributes: Attributes, obj: Object | None, old: Object | None, warnings: list[str]
    ) -> Object | None:
        try:
            response = await self._call(hook, attributes, obj, old, warnings, mutating=True)
        except _CallError as error:
            return _tolerate(hook, error, obj)
        _judge(hook, response)
        patch = response.get("patch")
        if not patch or obj is None:
            return obj
        return self._patched(hook, attributes, obj, patch)

    def _patched(self, hook: _Hook, attributes: Attributes, obj: Object, patch: str) -> Object:
        try:
            operations = orjson.loads(base64.b64decode(patch))
            sent = self._as(obj, attributes.type, hook.type)
            changed = patches.apply_operations(sent, operations)
        except (patches.DoesNotApplyError, binascii.Error, orjson.JSONDecodeError, AttributeError) as error:
            raise internal_error(str(error)) from None
        if not operations:
            return obj
        return self._world.decode(attributes, self._as(changed, hook.type, attributes.type))

    async def validate(
        self, attributes: Attributes, obj: Object | None, old: Object | None, warnings: list[str]
    ) -> None:
        """Ask all validating webhooks at once. Raises Problem when one refuses: the first in the order of
        configurations."""
        if hook_matching.is_exempt(attributes.type):
            return
        hooks = [
            hook
            for configuration, source in _each(self._world.validating())
            if (hook := self._concerned(source, configuration, attributes, obj, old)) is not None
        ]
        if not hooks:
            return
        told: list[list[str]] = [[] for _ in hooks]
        calls = (self._ask(hook, attributes, obj, old, said) for hook, said in zip(hooks, told, strict=True))
        problems = await asyncio.gather(*calls)
        for said in told:
            warnings.extend(said)
        for problem in problems:
            if problem is not None:
                raise problem

    async def _ask(
        self, hook: _Hook, attributes: Attributes, obj: Object | None, old: Object | None, warnings: list[str]
    ) -> Problem | None:
        try:
            _judge(hook, await self._call(hook, attributes, obj, old, warnings, mutating=False))
        except _CallError as error:
            if not hook.ignores_failure:
                return internal_error(str(error))
        except Problem as problem:
            return problem
        return None

    def _concerned(
        self,
        source: Mapping[str, Any],
        configuration: str,
        attributes: Attributes,
        obj: Object | None,
        old: Object | None,
    ) -> _Hook | None:
        """The webhook, when the request concerns it. Raises Problem when that cannot be told."""
        equivalents = self._world.equivalents(attributes.type)
        type_ = hook_matching.matched_type(source, attributes, equivalents)
        if type_ is None:
            return None
        hook = _Hook(source, configuration, type_)
        labels: Mapping[str, str] = {}
        if attributes.type.namespaced and source.get("namespaceSelector"):
            found = self._world.namespace_labels(attributes.namespace)
            if found is None:
                return None
            labels = found
        if not hook_matching.namespace_matches(source, attributes, obj, labels, old):
            return None
        if not hook_matching.object_matches(source, obj, old):
            return None
        if source.get("matchConditions"):
            request = self._review(hook, attributes, obj, old, uid="")["request"]
            try:
                if not hook_matching.conditions_hold(source, obj, old, request):
                    return None
            except ConditionError as error:
                if hook.ignores_failure:
                    return None
                raise _condition_refusal(attributes, error) from None
        return hook

    async def _call(
        self,
        hook: _Hook,
        attributes: Attributes,
        obj: Object | None,
        old: Object | None,
        warnings: list[str],
        *,
        mutating: bool,
    ) -> Mapping[str, Any]:
        """The `response` of a webhook, checked. Raises _CallError when there is none to be used."""
        if attributes.dry_run and hook.source.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise bad_request(f"admission webhook {go_quote(hook.name)} does not support dry run")
        uid = self._world.new_uid()
        review = self._review(hook, attributes, obj, old, uid=uid)
        shown, url, bundle = self._address(hook)
        try:
            body = orjson.dumps(review)
            async with asyncio.timeout(hook.timeout):
                status, answer = await self._send(url, bundle, body, hook.timeout)
        except TimeoutError:
            raise _failed(hook, f'failed to call webhook: Post "{shown}": context deadline exceeded') from None
        except SendError as error:
            raise _failed(hook, f'failed to call webhook: Post "{shown}": {error}') from None
        response = _response(hook, status, answer, uid, mutating=mutating)
        warnings.extend(str(text) for text in response.get("warnings") or ())
        return response

    def _address(self, hook: _Hook) -> tuple[str, str, bytes]:
        """(The address as messages show it, the address to call, the CA bundle)."""
        config = hook.source.get("clientConfig") or {}
        query = f"?timeout={hook.timeout}s"
        bundle = base64.b64decode(config.get("caBundle") or "")
        if config.get("url"):
            return config["url"] + query, config["url"] + query, bundle
        service = config.get("service") or {}
        namespace, name, port = service.get("namespace", ""), service.get("name", ""), service.get("port", 443)
        path = "/" + service.get("path", "").removeprefix("/")
        shown = f"https://{name}.{namespace}.svc:{port}{path}{query}"
        try:
            base = self._resolve(namespace, name, port)
        except SendError as error:
            raise _failed(hook, f'failed to call webhook: Post "{shown}": {error}') from None
        return shown, f"{base.rstrip('/')}{path}{query}", bundle

    def _as(self, obj: Object, source: ResourceType, target: ResourceType) -> Object:
        return obj if source is target else self._world.convert(obj, source, target)

    def _review(
        self, hook: _Hook, attributes: Attributes, obj: Object | None, old: Object | None, *, uid: str
    ) -> Object:
        """The AdmissionReview for a webhook."""
        own = attributes.type
        request: Object = {
            "uid": uid,
            "kind": _kind(hook.type, attributes.subresource),
            "resource": _resource(hook.type),
            "subResource": attributes.subresource,
            "requestKind": _kind(own, attributes.subresource),
            "requestResource": _resource(own),
            "requestSubResource": attributes.subresource,
            "name": attributes.name,
            "namespace": attributes.namespace,
            "operation": attributes.operation,
            "userInfo": attributes.user.info(),
            "object": None if obj is None else self._as(obj, own, hook.type),
            "oldObject": None if old is None else self._as(old, own, hook.type),
            "dryRun": attributes.dry_run,
            "options": attributes.options or None,
        }
        request = {key: value for key, value in request.items() if value != "" or key == "uid"}
        return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{hook.review_version}", "request": request}


def _each(configurations: Sequence[Object]) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (str(configuration["metadata"]["name"]), hook)
        for configuration in configurations
        for hook in configuration.get("webhooks") or ()
    ]


def _kind(type_: ResourceType, subresource: str) -> Object:
    """The kind of what is written: a subresource's body may have its own."""
    found = type_.subresources.get(subresource)
    if found is not None and found.kind:
        return {"group": found.group, "version": found.version or type_.version, "kind": found.kind}
    return {"group": type_.group, "version": type_.version, "kind": type_.kind}


def _resource(type_: ResourceType) -> Object:
    return {"group": type_.group, "version": type_.version, "resource": type_.plural}


def _failed(hook: _Hook, reason: str) -> _CallError:
    return _CallError(f"failed calling webhook {go_quote(hook.name)}: {reason}")


def _tolerate(hook: _Hook, error: _CallError, obj: Object | None) -> Object | None:
    if hook.ignores_failure:
        return obj
    raise internal_error(str(error))


_HTTP_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "unknown",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    415: "the server was unable to process the request content type",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def _response(hook: _Hook, status: int, answer: bytes, uid: str, *, mutating: bool) -> Mapping[str, Any]:
    if not 200 <= status < 300:
        generic = 'an error on the server ("unknown") has prevented the request from succeeding'
        text = _HTTP_TEXTS.get(status, generic if status >= 500 else _HTTP_TEXTS[400])
        raise _failed(hook, f"failed to call webhook: {text}")
    try:
        review = orjson.loads(answer)
    except orjson.JSONDecodeError:
        raise _failed(hook, "failed to call webhook: " + _LITERAL_NO_OBJECT.format("string")) from None
    if not isinstance(review, dict):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(review), "number")
        raise _failed(hook, "failed to call webhook: " + _LITERAL_NO_OBJECT.format(kind))
    response = review.get("response")
    fault = _response_fault(hook, review, response, uid, mutating=mutating)
    if fault:
        raise _failed(hook, f"received invalid webhook response: {fault}")
    assert isinstance(response, dict)
    return response


def _response_fault(hook: _Hook, review: Object, response: Any, uid: str, *, mutating: bool) -> str:
    """What is wrong with an answer; empty when it can be used."""
    if not isinstance(response, dict):
        return "webhook response was absent"
    if hook.review_version == "v1beta1":
        return ""
    wanted = "admission.k8s.io/v1, Kind=AdmissionReview"
    found = f"{review.get('apiVersion') or '/'}, Kind={review.get('kind', '')}"
    if found != wanted:
        return f"expected webhook response of {wanted}, got {found}"
    if response.get("uid") != uid:
        return f"expected response.uid={go_quote(uid)}, got {go_quote(str(response.get('uid', '')))}"
    patch, patch_type = response.get("patch"), response.get("patchType")
    if mutating:
        if patch and patch_type is None:
            return "webhook returned response.patch but not response.patchType"
        if not patch and patch_type is not None:
            return "webhook returned response.patchType but not response.patch"
        if patch and patch_type != "JSONPatch":
            return f"invalid value of response.patchType {go_quote(str(patch_type))}"
        return ""
    if patch:
        return "validating webhook may not return response.patch"
    return "validating webhook may not return response.patchType" if patch_type is not None else ""


def _judge(hook: _Hook, response: Mapping[str, Any]) -> None:
    """Raises Problem when the webhook did not allow the request, with what it says of why."""
    if response.get("allowed") is True:
        return
    status = response.get("status") or {}
    code, reason, message = status.get("code") or 0, status.get("reason") or "", status.get("message") or ""
    text = f"admission webhook {go_quote(hook.name)} denied the request"
    if message or reason:
        text += f": {message or reason}"
    else:
        text += " without explanation"
    raise Problem(max(code, 400), reason, text, status.get("details"))


def _condition_refusal(attributes: Attributes, error: ConditionError) -> Problem:
    return forbidden(attributes.type.plural, attributes.type.group, attributes.name, str(error))
