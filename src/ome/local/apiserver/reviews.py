"""Questions to the server as objects that are never stored: who am I, may I, is this token good, give me a token."""

from __future__ import annotations

from typing import Any, Final

from ome.local.apiserver import answers, bodies
from ome.local.apiserver.auth import Access, Authenticator, Authorizer
from ome.local.apiserver.calls import Call, write_options
from ome.local.apiserver.core import Core
from ome.local.apiserver.errors import (
    FieldError,
    bad_request,
    invalid,
    invalid_value,
    not_found,
    required,
)
from ome.local.apiserver.http import HttpResponse, User
from ome.local.apiserver.pipeline import Pipeline, typed
from ome.local.apiserver.rbac import Rbac
from ome.local.apiserver.registry import ResourceType
from ome.local.apiserver.tokens import AUDIENCE, BOUND_KINDS, Tokens

SHORTEST_TOKEN: Final = 600
DEFAULT_TOKEN: Final = 3600
TOKEN_REQUEST: Final = "io.k8s.api.authentication.v1.TokenRequest"
LONGEST_TOKEN: Final = 1 << 32
Object = dict[str, Any]


class Reviews:
    """Answers reviews and token requests."""

    def __init__(
        self,
        core: Core,
        pipeline: Pipeline,
        authenticator: Authenticator,
        authorizer: Authorizer,
        tokens: Tokens,
    ) -> None:
        self._core = core
        self._pipeline = pipeline
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._tokens = tokens

    def handles(self, type_: ResourceType) -> bool:
        return type_.kind.endswith("Review")

    def review(self, call: Call) -> HttpResponse:
        """A POST of one of the reviews."""
        call.form()
        call.dry_run, call.field_validation = write_options(call.query, "CreateOptions")
        headers = call.request.headers
        body = bodies.decode(call.request.body, headers.get("content-type"), call.type.kind, check_duplicates=True)
        obj = self._pipeline.accept(call, body)
        spec = obj.get("spec")
        answered = getattr(self, f"_{call.type.kind.lower()}")(call, spec if isinstance(spec, dict) else {})
        out = {"kind": call.type.kind, "apiVersion": call.type.api_version, **answered}
        return answers.plain(call, out, 201)

    def _selfsubjectreview(self, call: Call, spec: Object) -> Object:
        return {"metadata": {"creationTimestamp": self._core.now()}, "status": {"userInfo": call.user.info()}}

    def _tokenreview(self, call: Call, spec: Object) -> Object:
        token = spec.get("token")
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        shown: Object = {"metadata": {}, "spec": spec}
        known = self._authenticator.static_user(token)
        wanted = spec.get("audiences") or [AUDIENCE]
        if known is not None:
            status: Object = {"authenticated": True, "user": known.info(), "audiences": wanted}
            return {**shown, "status": status}
        verdict = self._tokens.review(token, wanted)
        if verdict.user is None:
            return {**shown, "status": {"user": {}, "error": verdict.error}}
        status = {"authenticated": True, "user": verdict.user.info(), "audiences": list(verdict.audiences)}
        return {**shown, "status": status}

    def _access(self, spec: Object) -> Access:
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        errors: list[FieldError] = []
        if resource and path:
            detail = "cannot be specified in combination with resourceAttributes"
            errors.append(invalid_value("spec.nonResourceAttributes", path, detail))
        if not resource and not path:
            detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            errors.append(invalid_value("spec", None, detail))
        if errors:
            raise invalid("", "", "", errors)
        if path:
            return Access(str(path.get("verb") or ""), path=str(path.get("path") or ""))
        attributes = resource or {}
        return Access(
            *(
                str(attributes.get(name) or "")
                for name in ("verb", "group", "version", "resource", "subresource", "namespace", "name")
            )
        )

    def _judged(self, user: User, access: Access, spec: Object) -> Object:
        allowed, reason = self._authorizer.allows(user, access)
        status: Object = {"allowed": allowed}
        if reason:
            status["reason"] = reason
        return {"metadata": {"creationTimestamp": None}, "spec": spec, "status": status}

    def _selfsubjectaccessreview(self, call: Call, spec: Object) -> Object:
        access = self._access(spec)
        answered = self._judged(call.user, access, spec)
        return {**answered, "metadata": {}}

    def _subjectaccessreview(self, call: Call, spec: Object) -> Object:
        access = self._access(spec)
        name, groups = str(spec.get("user") or ""), tuple(spec.get("groups") or ())
        if not name and not groups:
            error = invalid_value("spec.user", "", "at least one of user or group must be specified")
            raise invalid(call.type.kind, call.type.group, "", [error])
        user = User(name, str(spec.get("uid") or ""), groups, spec.get("extra") or {})
        return {**self._judged(user, access, spec), "metadata": {}}

    def _localsubjectaccessreview(self, call: Call, spec: Object) -> Object:
        attributes = spec.get("resourceAttributes") or {}
        namespace = attributes.get("namespace") or ""
        if namespace and namespace != call.namespace:
            detail = f"must match metadata.namespace: {call.namespace}"
            error = invalid_value("spec.resourceAttributes.namespace", namespace, detail)
            raise invalid(call.type.kind, call.type.group, "", [error])
        answered = self._subjectaccessreview(call, spec)
        return {**answered, "metadata": {"namespace": call.namespace}}

    def _selfsubjectrulesreview(self, call: Call, spec: Object) -> Object:
        namespace = spec.get("namespace")
        if not namespace:
            raise bad_request("no namespace on request")
        resources: list[Object] = []
        urls: list[Object] = []
        if isinstance(self._authorizer, Rbac):
            for grant in self._authorizer.grants(call.user):
                if grant.namespace not in ("", namespace):
                    continue
                for rule in grant.rules:
                    (urls if rule.get("nonResourceURLs") else resources).append(_shown_rule(rule))
        if not isinstance(self._authorizer, Rbac):
            resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
            urls.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
        status = {"resourceRules": resources, "nonResourceRules": urls, "incomplete": False}
        return {"metadata": {}, "spec": {}, "status": status}

    # -- token requests

    async def token(self, call: Call) -> HttpResponse:
        """POST of serviceaccounts/token. Raises Problem 404 or 422."""
        call.form()
        call.dry_run, _ = write_options(call.query, "CreateOptions")
        headers = call.request.headers
        body = typed(call.request.body, headers.get("content-type"), "TokenRequest", TOKEN_REQUEST)
        kind, version = body.get("kind"), body.get("apiVersion")
        if kind not in (None, "TokenRequest") or version not in (None, "authentication.k8s.io/v1"):
            raise bad_request(f'no kind "{kind}" is registered for version "{version}"')
        spec = body.get("spec") or {}
        account = self._core.read("serviceaccounts", call.namespace, call.name)
        if account is None:
            raise not_found("serviceaccounts", "", call.name)
        seconds = spec.get("expirationSeconds")
        seconds = DEFAULT_TOKEN if seconds is None else seconds
        self._check_life(seconds)
        audiences = spec.get("audiences") or [AUDIENCE]
        reference = spec.get("boundObjectRef") or None
        bound = self._bound(reference, call.namespace) if reference else None
        metadata = account["metadata"]
        token = self._tokens.issue(account, audiences, seconds, bound)
        shown = {name: metadata[name] for name in ("name", "namespace", "uid") if name in metadata}
        out = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {**shown, "creationTimestamp": self._core.now()},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
            "status": {"token": token, "expirationTimestamp": self._core.later(seconds)},
        }
        return answers.plain(call, out, 201)

    def _check_life(self, seconds: int) -> None:
        field = "spec.expirationSeconds"
        errors: list[FieldError] = []
        if seconds < SHORTEST_TOKEN:
            errors.append(invalid_value(field, seconds, "may not specify a duration less than 10 minutes"))
        if seconds > LONGEST_TOKEN:
            errors.append(invalid_value(field, seconds, "may not specify a duration larger than 2^32 seconds"))
        if errors:
            raise invalid("TokenRequest", "authentication.k8s.io", "", errors)

    def _bound(self, reference: Object, namespace: str) -> Object:
        kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
        known = BOUND_KINDS.get(kind)
        if known is None:
            raise bad_request(f'cannot bind token for serviceaccount to object of kind "{kind}"')
        if not name:
            raise invalid("TokenRequest", "authentication.k8s.io", "", [required("spec.boundObjectRef.name")])
        found = self._core.read(known[0], "" if kind == "Node" else namespace, name)
        if found is None:
            raise not_found(known[0], "", name)
        uid = reference.get("uid")
        if uid and uid != found["metadata"]["uid"]:
            from ome.local.apiserver.errors import conflict

            message = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might "
                "have been deleted and then recreated"
            )
            raise conflict(known[0], "", name, message)
        return {**found, "kind": kind}


def _shown_rule(rule: Any) -> Object:
    names = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return {name: list(rule[name]) for name in names if rule.get(name)}
