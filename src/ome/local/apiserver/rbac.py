"""Role-based access control: who may do what, by the roles and bindings that are stored.

Rules are indexed by subject and kept until a role or binding changes. Aggregated cluster roles are put together here
too, and the rule that nobody grants what they do not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ome.local.apiserver.admission import Attributes, Object
from ome.local.apiserver.auth import MASTERS, Access
from ome.local.apiserver.core import Core
from ome.local.apiserver.errors import forbidden, not_found
from ome.local.apiserver.http import User
from ome.local.apiserver.store import Event

GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = f"roles.{GROUP}"
CLUSTER_ROLES: Final = f"clusterroles.{GROUP}"
BINDINGS: Final = f"rolebindings.{GROUP}"
CLUSTER_BINDINGS: Final = f"clusterrolebindings.{GROUP}"
_ALL: Final = frozenset({ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS})
Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Grant:
    """What one binding gives to a subject. namespace: empty for the whole cluster. why: how a review explains it."""

    namespace: str
    rules: tuple[Rule, ...]
    why: str


def covers(rule: Rule, access: Access) -> bool:
    """Whether a rule allows an access."""
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and access.verb not in verbs:
        return False
    if access.path:
        return any(_path_matches(pattern, access.path) for pattern in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    if "*" not in groups and access.group not in groups:
        return False
    resource = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    resources = rule.get("resources") or ()
    if "*" not in resources and resource not in resources and f"*/{access.subresource or '-'}" not in resources:
        return False
    names = rule.get("resourceNames")
    return not names or access.name in names


def _path_matches(pattern: str, path: str) -> bool:
    if pattern == "*" or pattern == path:
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


class Rbac:
    """The authorizer. Members of `system:masters` may do everything."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._grants: dict[tuple[str, tuple[str, ...]], list[Grant]] = {}
        core.store.on_commit(self._hear)

    def _hear(self, resource: str, event: Event) -> None:
        if resource in _ALL:
            self._grants.clear()

    def allows(self, user: User, access: Access) -> tuple[bool, str]:
        if MASTERS in user.groups:
            return True, ""
        for grant in self.grants(user):
            if grant.namespace and grant.namespace != access.namespace:
                continue
            for rule in grant.rules:
                if covers(rule, access):
                    return True, grant.why
        return False, ""

    def grants(self, user: User) -> list[Grant]:
        """Everything bound to a user or to the user's groups, missing roles left out."""
        key = (user.name, user.groups)
        found = self._grants.get(key)
        if found is None:
            if len(self._grants) > 4096:
                self._grants.clear()
            found = self._grants[key] = list(self._collect(user))
        return found

    def _collect(self, user: User) -> Iterable[Grant]:
        for storage in (CLUSTER_BINDINGS, BINDINGS):
            for record in self._core.store.collection(storage).all():
                binding = record.parse()
                subject = _matching_subject(binding.get("subjects") or (), user, record.namespace)
                if subject is None:
                    continue
                reference = binding.get("roleRef") or {}
                rules = self.rules_of(reference, record.namespace)
                if rules is None:
                    continue
                kind = "ClusterRoleBinding" if storage == CLUSTER_BINDINGS else "RoleBinding"
                place = f"{record.name}/{record.namespace}" if record.namespace else record.name
                role = f'{reference.get("kind")} "{reference.get("name")}"'
                why = f'RBAC: allowed by {kind} "{place}" of {role} to {subject}'
                yield Grant(record.namespace, tuple(rules), why)

    def rules_of(self, reference: Mapping[str, Any], namespace: str) -> list[Rule] | None:
        """The rules of a roleRef, or None when there is no such role."""
        cluster = reference.get("kind") == "ClusterRole"
        storage = CLUSTER_ROLES if cluster else ROLES
        role = self._core.read(storage, "" if cluster else namespace, str(reference.get("name", "")))
        return None if role is None else list(role.get("rules") or ())


def _matching_subject(subjects: Iterable[Mapping[str, Any]], user: User, namespace: str) -> str | None:
    for subject in subjects:
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User" and name == user.name:
            return f'User "{name}"'
        if kind == "Group" and name in user.groups:
            return f'Group "{name}"'
        if kind == "ServiceAccount":
            place = subject.get("namespace") or namespace
            if user.name == f"system:serviceaccount:{place}:{name}":
                return f'ServiceAccount "{name}/{place}"'
    return None


class Aggregation:
    """Puts together the rules of cluster roles that gather those of others by label."""

    def __init__(self, core: Core) -> None:
        self._core = core
        found = core.registry.find(GROUP, "v1", "clusterroles")
        if found is None:
            raise AssertionError("cluster roles are a built-in kind")
        self._type = found

    def hear(self, resource: str, event: Event) -> None:
        if resource == CLUSTER_ROLES:
            self.gather()

    def gather(self) -> None:
        """Bring every aggregated role up to date."""
        collection = self._core.store.collection(CLUSTER_ROLES)
        for record in collection.all():
            if b'"aggregationRule"' not in record.body:
                continue
            role = record.parse()
            selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
            rules: list[Any] = []
            for other in collection.all():
                if other.name != record.name and any(selects(selector, other.labels) for selector in selectors):
                    rules += [rule for rule in other.parse().get("rules") or () if rule not in rules]
            if rules != (role.get("rules") or []):
                role["rules"] = rules or None
                self._core.update(self._type, role, record)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or ():
        actual, values = labels.get(expression.get("key", "")), expression.get("values") or ()
        outcomes = {
            "In": actual is not None and actual in values,
            "NotIn": actual is None or actual not in values,
            "Exists": actual is not None,
            "DoesNotExist": actual is None,
        }
        if not outcomes.get(expression.get("operator", ""), False):
            return False
    return True


class Escalation:
    """Admission: a role may grant, and a binding may hand on, only what the writer holds."""

    def __init__(self, core: Core, rbac: Rbac) -> None:
        self._core = core
        self._rbac = rbac

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        return

    def before_commit(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        return

    def validate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        type_, user = attributes.type, attributes.user
        if type_.group != GROUP or MASTERS in user.groups:
            return
        if type_.storage in (ROLES, CLUSTER_ROLES):
            if old is not None and obj.get("rules") == old.get("rules"):
                return
            if self._may(attributes, "escalate", type_.plural, attributes.name):
                return
            self._check(attributes, obj.get("rules") or ())
            return
        reference = obj.get("roleRef") or {}
        plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
        if self._may(attributes, "bind", plural, str(reference.get("name", ""))):
            return
        rules = self._rbac.rules_of(reference, attributes.namespace)
        if rules is None:
            raise not_found(type_.plural, GROUP, str(reference.get("name", "")))
        self._check(attributes, rules)

    def _may(self, attributes: Attributes, verb: str, plural: str, name: str) -> bool:
        access = Access(verb, GROUP, "v1", plural, "", attributes.namespace, name)
        return self._rbac.allows(attributes.user, access)[0]

    def _check(self, attributes: Attributes, rules: Iterable[Rule]) -> None:
        held = [
            rule
            for grant in self._rbac.grants(attributes.user)
            if grant.namespace in ("", attributes.namespace)
            for rule in grant.rules
        ]
        missing = [text for rule in rules for text in _missing(rule, held)]
        if not missing:
            return
        user = attributes.user
        groups = " ".join(f'"{group}"' for group in user.groups)
        message = (
            f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
            + "\n".join(dict.fromkeys(missing))
        )
        type_ = attributes.type
        raise forbidden(type_.plural, type_.group, attributes.name, message)


def _missing(rule: Rule, held: Sequence[Rule]) -> list[str]:
    """Texts of what a rule grants beyond the rules held, one a resource."""
    out: list[str] = []
    verbs = list(rule.get("verbs") or ())
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for name in rule.get("resourceNames") or [None]:
                lacking = [v for v in verbs if not any(_contains(h, group, resource, name, v) for h in held)]
                if lacking:
                    names = f', ResourceNames:["{name}"]' if name else ""
                    out.append(
                        f'{{APIGroups:["{group}"], Resources:["{resource}"]{names}, Verbs:[{_quoted(lacking)}]}}'
                    )
    for url in rule.get("nonResourceURLs") or ():
        lacking = [v for v in verbs if not any(_contains_url(h, url, v) for h in held)]
        if lacking:
            out.append(f'{{NonResourceURLs:["{url}"], Verbs:[{_quoted(lacking)}]}}')
    return out


def _quoted(values: Sequence[str]) -> str:
    return " ".join(f'"{value}"' for value in values)


def _contains(held: Rule, group: str, resource: str, name: str | None, verb: str) -> bool:
    def has(field: str, value: str) -> bool:
        values = held.get(field) or ()
        return "*" in values or value in values

    if not has("verbs", verb) or not has("apiGroups", group):
        return False
    if not has("resources", resource):
        subresource = resource.partition("/")[2]
        if not subresource or f"*/{subresource}" not in (held.get("resources") or ()):
            return False
    names = held.get("resourceNames")
    return not names or name in names


def _contains_url(held: Rule, url: str, verb: str) -> bool:
    verbs = held.get("verbs") or ()
    if "*" not in verbs and verb not in verbs:
        return False
    return any(_path_matches(pattern, url) for pattern in held.get("nonResourceURLs") or ())
