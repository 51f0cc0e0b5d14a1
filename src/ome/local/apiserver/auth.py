"""Who asks, and whether they may: bearer tokens, client certificates, impersonation.

ServiceAccount tokens are `tokens.py`, the rules of RBAC `rbac.py`. A request without credentials is
`system:anonymous`; a wrong token is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from ome.local.apiserver.errors import Problem, bad_request, forbidden, unauthorized
from ome.local.apiserver.http import HttpRequest, User
from ome.local.apiserver.routing import Route

ANONYMOUS: Final = User("system:anonymous", groups=("system:unauthenticated",))
AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"


class TokenReader(Protocol):
    """Reads the tokens that this server signs itself."""

    def user(self, token: str) -> User | None:
        """Who the token stands for; None when it is not valid for this server."""


def with_group(user: User) -> User:
    """The user as authenticated."""
    if AUTHENTICATED in user.groups:
        return user
    return User(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)


class Authenticator:
    """tokens: static bearer tokens and whom they stand for."""

    def __init__(self, tokens: Mapping[str, User], reader: TokenReader | None = None) -> None:
        self._tokens = {token: with_group(user) for token, user in tokens.items()}
        self._reader = reader

    def user(self, request: HttpRequest) -> User:
        """Who sent the request. Raises Problem 401 for a token that is not valid."""
        header = request.headers.get("authorization", "")
        if header[:7].lower() == "bearer " and header[7:].strip():
            token = header[7:].strip()
            known = self._tokens.get(token)
            if known is not None:
                return known
            if self._reader is not None:
                found = self._reader.user(token)
                if found is not None:
                    return with_group(found)
            raise unauthorized()
        if request.certificate is not None:
            return with_group(request.certificate)
        return ANONYMOUS

    def static_user(self, token: str) -> User | None:
        return self._tokens.get(token)


@dataclass(frozen=True, slots=True)
class Access:
    """What somebody wants to do: a verb on a resource, or on a path (`path` set)."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def access_of(route: Route, field_name: str = "") -> Access:
    """What a request wants. field_name: the name a list or watch is narrowed to by its field selector."""
    if not route.is_resource:
        return Access(route.verb, path="/" + "/".join(route.parts))
    return Access(
        route.verb,
        route.group,
        route.version,
        route.resource,
        route.subresource,
        route.namespace,
        route.name or field_name,
    )


class Authorizer(Protocol):
    def allows(self, user: User, access: Access) -> tuple[bool, str]:
        """(whether the user may, the reason)."""


class EverybodyMay:
    """No authorization at all, for tests of other things."""

    def allows(self, user: User, access: Access) -> tuple[bool, str]:
        return True, ""


def denial(user: User, access: Access, reason: str = "") -> Problem:
    """403 in a real server's words."""
    if access.path:
        text = f'User "{user.name}" cannot {access.verb} path "{access.path}"'
        problem = forbidden("", "", "", text)
        problem.details = {}
        return problem
    resource = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    text = f'User "{user.name}" cannot {access.verb} resource "{resource}" in API group "{access.group}"'
    if access.namespace:
        text += f' in the namespace "{access.namespace}"'
    else:
        text += " at the cluster scope"
    if reason:
        text += f": {reason}"
    return forbidden(access.resource, access.group, access.name, text)


def impersonated(request: HttpRequest, user: User, allows: Callable[[User, Access], tuple[bool, str]]) -> User:
    """The user a request acts as. Raises Problem 403 when that is not allowed, 400 when headers make no sense."""
    headers = request.headers
    name = headers.get("impersonate-user", "")
    groups = _values(headers.get("impersonate-group"))
    uid = headers.get("impersonate-uid", "")
    extra = {
        key.removeprefix("impersonate-extra-"): _values(value)
        for key, value in headers.items()
        if key.startswith("impersonate-extra-")
    }
    if not name:
        if groups or uid or extra:
            raise bad_request("requested impersonation without a user")
        return user
    _demand(user, Access("impersonate", **_subject(name)), allows)
    for group in groups:
        _demand(user, Access("impersonate", version="v1", resource="groups", name=group), allows)
    for key, values in extra.items():
        for value in values:
            access = Access("impersonate", "authentication.k8s.io", "v1", "userextras", subresource=key, name=value)
            _demand(user, access, allows)
    if uid:
        _demand(user, Access("impersonate", "authentication.k8s.io", "v1", "uids", name=uid), allows)
    if not groups and name.startswith("system:serviceaccount:"):
        namespace = name.split(":")[2]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if name != ANONYMOUS.name and AUTHENTICATED not in groups:
        groups = [*groups, AUTHENTICATED]
    elif name == ANONYMOUS.name and "system:unauthenticated" not in groups:
        groups = [*groups, "system:unauthenticated"]
    return User(name, uid, tuple(groups), extra)


def _values(header: str | None) -> list[str]:
    """Values of a header that may have been given several times (joined by newlines)."""
    return header.split("\n") if header else []


def _subject(name: str) -> dict[str, str]:
    parts = name.split(":")
    if name.startswith("system:serviceaccount:") and len(parts) == 4:
        return {"version": "v1", "resource": "serviceaccounts", "namespace": parts[2], "name": parts[3]}
    return {"version": "v1", "resource": "users", "name": name}


def _demand(user: User, access: Access, allows: Callable[[User, Access], tuple[bool, str]]) -> None:
    allowed, reason = allows(user, access)
    if not allowed:
        raise denial(user, access, reason)
