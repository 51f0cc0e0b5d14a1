"""The API server itself: requests in, answers out, and the tasks that a cluster's own upkeep needs.

`ApiServer(...).handle(request)` knows no socket. Call `start()` once in a running loop before the first request,
`stop()` at the end. Everything it is made of is wired here and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from ome.api.kubernetes import VERSION
from ome.kube.clock import Clock, SystemClock
from ome.local.apiserver import answers, negotiate, roles
from ome.local.apiserver.admission import Admission
from ome.local.apiserver.auth import Authenticator, Authorizer, EverybodyMay, access_of, denial, impersonated
from ome.local.apiserver.bodies import BODY_LIMIT
from ome.local.apiserver.calls import Call
from ome.local.apiserver.core import Core
from ome.local.apiserver.customs import DEFINITIONS, Customs
from ome.local.apiserver.deletion import DeleteOptions, Deletion
from ome.local.apiserver.discovery import Discovery
from ome.local.apiserver.durable import JUMP, Database
from ome.local.apiserver.encoding import stored_record
from ome.local.apiserver.errors import (
    Problem,
    forbidden,
    internal_error,
    method_not_allowed,
    not_found,
    resource_not_found,
    too_deep,
    too_large,
)
from ome.local.apiserver.events import EVENTS, EventExpiry
from ome.local.apiserver.faults import Faults, apply_fault
from ome.local.apiserver.garbage import GarbageCollector
from ome.local.apiserver.hook_world import HookWorld, service_resolver
from ome.local.apiserver.http import ExecSource, HttpRequest, HttpResponse, LogSource, User
from ome.local.apiserver.limits import Limits
from ome.local.apiserver.namespaces import Namespaces
from ome.local.apiserver.network import FIRST_ADDRESS, ServiceNetwork
from ome.local.apiserver.openapi import OpenApi
from ome.local.apiserver.pipeline import Pipeline
from ome.local.apiserver.plugins import Priorities, Protection, steps
from ome.local.apiserver.quota import Quotas
from ome.local.apiserver.rbac import Aggregation, Escalation, Rbac
from ome.local.apiserver.reads import Reads
from ome.local.apiserver.registry import Registry, ResourceType
from ome.local.apiserver.reviews import Reviews
from ome.local.apiserver.routing import Query, Route, parse
from ome.local.apiserver.store import Record, Store
from ome.local.apiserver.subresources import Subresources
from ome.local.apiserver.tables import Tables
from ome.local.apiserver.tokens import Tokens
from ome.local.apiserver.watching import Watches
from ome.local.apiserver.webhooks import Dispatcher, Resolve, Send
from ome.local.apiserver.writes import Writes

_log: Final = logging.getLogger(__name__)
_ORDINARY: Final = frozenset({"status", "finalize", "ephemeralcontainers", "resize", "approval"})


def _is_too_deep(error: Exception) -> bool:
    """Whether an object is nested deeper than its way to the store bears: nothing has been stored then."""
    return isinstance(error, RecursionError) or (isinstance(error, TypeError) and "Recursion limit" in str(error))


class ApiServer:
    """A Kubernetes-compatible API server in this process.

    tokens: static bearer tokens (the administrator's has group `system:masters`). clock, seed: make it deterministic.
    faults: chooses a fault for a request, or None. logs, execs: whoever runs the pods. address: `host:port` as
    discovery and the `kubernetes` Service show it. certificate: the CA bundle (PEM) that pods are given. database:
    where writes are kept, or None for memory alone. token_key: signs ServiceAccount tokens; made up when None.
    authorization: False lets everybody do everything. event_ttl: seconds after which an Event is removed (a real
    server: 3600), or None to keep them. send: posts admission reviews (`sender.HttpSender` over HTTP);
    without it no webhook is called. resolve: where a Service is reached; by its endpoints when None.
    """

    def __init__(
        self,
        *,
        tokens: Mapping[str, User] | None = None,
        clock: Clock | None = None,
        seed: int | None = None,
        faults: Faults | None = None,
        address: str = "127.0.0.1:7443",
        certificate: str = "",
        database: Database | None = None,
        token_key: EllipticCurvePrivateKey | None = None,
        authorization: bool = True,
        logs: LogSource | None = None,
        execs: ExecSource | None = None,
        event_ttl: float | None = None,
        send: Send | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.faults = faults
        chance = random.Random(seed)
        self.store = Store()
        self.registry = Registry()
        settle = database.settled if database is not None else None
        self.core = Core(self.store, self.registry, self.clock, chance, settle)
        self._database = database
        self._tokens = Tokens(self.core, token_key)
        self._authenticator = Authenticator(tokens or {}, self._tokens)
        rbac = Rbac(self.core)
        self._authorizer: Authorizer = rbac if authorization else EverybodyMay()
        self._aggregation = Aggregation(self.core)
        self._pipeline = Pipeline(self.core)
        tables = Tables(self.clock.now)
        self._reads = Reads(self.store, tables)
        self._watches = Watches(self.store, tables, chance.random)
        self._priorities = Priorities(self.core)
        protection, quotas = Protection(self.core), Quotas(self.core)
        self._admission = Admission(
            [
                Limits(self.core),
                *steps(self.core),
                self._priorities,
                protection,
                Escalation(self.core, rbac),
                ServiceNetwork(self.core, chance),
                quotas,
            ],
            self._hooks(send, resolve),
        )
        self._deletion = Deletion(self.core, self._reads, self._admission, tables)
        self._namespaces = Namespaces(self.core, self._remove, lambda: certificate)
        self._writes = Writes(self.core, self._pipeline, self._admission, tables, self._check_creation)
        self._customs = Customs(self.core, self._remove, self._watches.end, self._pipeline.decoded)
        self._reviews = Reviews(self.core, self._pipeline, self._authenticator, self._authorizer, self._tokens)
        self._subresources = Subresources(
            self.core, self._writes, self._deletion, self._admission, logs=logs, execs=execs, tables=tables
        )
        self._garbage = GarbageCollector(self.core, self._remove)
        self._discovery = Discovery(self.registry, address)
        self._openapi = OpenApi(self.registry)
        events = self.registry.find("", "v1", EVENTS)
        self._expiry: EventExpiry | None = None
        if event_ttl is not None and events is not None:
            self._expiry = EventExpiry(self.store, events, self._remove, event_ttl)
        self._tasks: list[asyncio.Task[None]] = []
        self.store.on_commit(self._garbage.hear)
        self.store.on_commit(self._namespaces.hear)
        self.core.after_commit(self._customs.hear)
        self.core.after_commit(self._aggregation.hear)
        self.core.after_commit(self._namespaces.follow)
        self.core.after_commit(protection.hear)
        self.core.after_commit(quotas.hear)
        self._address = address
        self._ready = False

    # -- life

    async def start(self) -> None:
        """Make what every cluster has and start the upkeep. Must run in the loop that will serve."""
        self._load()
        self._customs.load()
        self._namespaces.bootstrap()
        roles.bootstrap(self.core)
        self._aggregation.gather()
        self._priorities.bootstrap()
        self._own_service()
        self._garbage.survey()
        self._spawn(self._namespaces.run())
        self._spawn(self._garbage.run())
        if self._expiry is not None:
            self._expiry.survey()
            self.store.on_commit(self._expiry.hear)
            self._spawn(self._expiry.run())
        self._ready = True

    def _hooks(self, send: Send | None, resolve: Resolve | None) -> Dispatcher | None:
        if send is None:
            return None
        world = HookWorld(self.core, self._pipeline).world()
        return Dispatcher(world, send, resolve or service_resolver(self.core))

    def _load(self) -> None:
        """Take over what the database holds."""
        if self._database is None:
            return
        revision, rows = self._database.rows()
        if revision:
            self.store.begin(revision + JUMP)
        for resource in sorted(rows, key=lambda name: name != DEFINITIONS):
            type_ = self.registry.by_storage(resource)
            if type_ is None:
                self._customs.load()
                type_ = self.registry.by_storage(resource)
            self.store.load(resource, [stored_record(type_, *row) for row in rows[resource]])
        self._database.attach(self.store)

    def _own_service(self) -> None:
        """The Service by which pods find this server."""
        services = self.registry.by_storage("services")
        if services is None or self.core.get(services, "default", "kubernetes") is not None:
            return
        port = int(self._address.rpartition(":")[2] or 0)
        obj: dict[str, Any] = {
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port or 443}],
                "clusterIP": FIRST_ADDRESS,
                "clusterIPs": [FIRST_ADDRESS],
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
            "status": {"loadBalancer": {}},
        }
        self.core.stamp(obj)
        self.core.create(services, obj)

    def listen_at(self, address: str) -> None:
        """Tell the server its `host:port`, once it is known."""
        self._address = address
        self._discovery.listen_at(address)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def stop(self) -> None:
        """End watches and upkeep."""
        self._ready = False
        self._watches.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._database is not None:
            self._database.close()

    def _remove(self, type_: ResourceType, record: Record, policy: str) -> None:
        self._deletion.remove(type_, record, DeleteOptions(policy=policy))

    def _check_creation(self, call: Call, name: str) -> None:
        type_ = call.type
        if type_.terminating:
            message = "create not allowed while custom resource definition is terminating"
            raise forbidden(type_.plural, type_.group, name, message)
        self._namespaces.check(call, name)

    # -- requests

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer one request. Raises only `faults.NoAnswer`, when a fault was injected that leaves it unanswered."""
        try:
            fault = self.faults(request) if self.faults is not None else None
            if fault is not None:
                return await apply_fault(fault, lambda: self._answered(request))
            return await self._answered(request)
        except Problem as problem:
            return self._refusal(request, problem)

    async def _answered(self, request: HttpRequest) -> HttpResponse:
        try:
            return await self._dispatch(request)
        except Problem as problem:
            return self._refusal(request, problem)
        except Exception as error:
            if _is_too_deep(error):
                return self._refusal(request, too_deep())
            _log.exception("answering %s %s failed", request.method, request.path)
            return self._refusal(request, internal_error(f"{type(error).__name__}: {error}"))

    def _refusal(self, request: HttpRequest, problem: Problem) -> HttpResponse:
        agent = request.headers.get("user-agent", "")
        return answers.status_of(problem, request.headers.get("accept", ""), pretty=agent.startswith("curl"))

    async def _dispatch(self, request: HttpRequest) -> HttpResponse:
        if len(request.body) > BODY_LIMIT:
            raise too_large(BODY_LIMIT)
        query = Query(request.query)
        route = parse(request.method, request.path, query)
        user = impersonated(request, self._authenticator.user(request), self._authorizer.allows)
        self._authorize(user, route, query)
        if not route.is_resource:
            return self._plain(request, route)
        call = self._call(request, query, route, user)
        if call is None:
            return _page_not_found()
        try:
            return await self._verb(call)
        except Problem as problem:
            problem.warnings = (*call.warnings, *problem.warnings)
            raise

    def _authorize(self, user: User, route: Route, query: Query) -> None:
        narrowed = ""
        if route.verb in ("list", "watch", "deletecollection"):
            selector = query.get("fieldSelector")
            if selector.startswith("metadata.name="):
                narrowed = selector.removeprefix("metadata.name=").lstrip("=").partition(",")[0]
        access = access_of(route, narrowed)
        allowed, reason = self._authorizer.allows(user, access)
        if not allowed:
            raise denial(user, access, reason)

    def _call(self, request: HttpRequest, query: Query, route: Route, user: User) -> Call | None:
        """The call of a resource; None when not even the group and version are served."""
        type_ = self.registry.find(route.group, route.version, route.resource)
        if type_ is None or (type_.namespaced and route.resource == "namespaces"):
            if self.registry.is_builtin_group(route.group):
                raise resource_not_found()
            return None
        if route.namespace and not type_.namespaced and type_.plural != "namespaces":
            if type_.custom is not None:
                return None
            raise resource_not_found()
        if not type_.namespaced:
            if type_.plural == "namespaces" and not type_.group:
                route.namespace = ""
        elif route.name and not route.namespace:
            raise resource_not_found() if type_.custom is None else _not_served()
        subresource = None
        if route.subresource:
            subresource = type_.subresources.get(route.subresource)
            if subresource is None:
                raise resource_not_found() if type_.custom is None else not_found_at(type_, route)
        call = Call(request, query, route, user, type_, subresource)
        if type_.custom is not None and type_.custom.deprecation:
            call.warnings.append(type_.custom.deprecation)
        elif type_.storage == "endpoints" and route.verb not in ("create", "update", "patch"):
            call.warnings.append("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        return call

    async def _verb(self, call: Call) -> HttpResponse:
        verb, type_ = call.route.verb, call.type
        if (
            call.subresource is not None
            and verb not in call.subresource.verbs
            and call.subresource.verbs != ("connect",)
        ):
            raise method_not_allowed()
        if call.subresource is not None and call.subresource.name not in _ORDINARY:
            return await self._subresource(call, call.subresource.name)
        if verb not in type_.verbs and verb != "watch":
            raise method_not_allowed()
        if type_.namespaced and not call.namespace and verb not in ("list", "watch"):
            raise method_not_allowed()
        if verb == "create" and call.name:
            raise method_not_allowed()
        if verb in ("update", "patch", "get") and not call.name:
            raise method_not_allowed()
        if verb == "create" and self._reviews.handles(type_):
            return self._reviews.review(call)
        if type_.storage == "bindings":
            return await self._subresources.binding(call, legacy=True)
        if type_.storage == "componentstatuses":
            return self._component_statuses(call)
        match verb:
            case "get":
                return self._reads.get(call)
            case "list":
                return self._reads.page(call)
            case "watch":
                return self._watches.watch(call)
            case "create":
                return await self._writes.create(call)
            case "update":
                return await self._writes.update(call)
            case "patch":
                return await self._writes.patch(call)
            case "delete":
                return await self._deletion.delete(call)
            case "deletecollection":
                return await self._deletion.collection(call)
            case _:
                raise method_not_allowed()

    async def _subresource(self, call: Call, name: str) -> HttpResponse:
        if call.type.namespaced and not call.namespace:
            raise resource_not_found()
        match name:
            case "scale":
                return await self._subresources.scale(call)
            case "binding":
                return await self._subresources.binding(call)
            case "eviction":
                return await self._subresources.eviction(call)
            case "log":
                return self._subresources.log(call)
            case "token":
                return await self._reviews.token(call)
            case _:
                return self._subresources.connect(call)

    def _component_statuses(self, call: Call) -> HttpResponse:
        """A list of nothing: this server has no components apart."""
        call.warnings.append("v1 ComponentStatus is deprecated in v1.19+")
        if call.route.verb == "watch":
            return self._watches.watch(call)
        if call.route.verb == "get":
            raise not_found(call.type.plural, "", call.name)
        return self._reads.page(call)

    def _plain(self, request: HttpRequest, route: Route) -> HttpResponse:
        """Paths that name no resource."""
        parts = route.parts
        path = "/" + "/".join(parts)
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        if parts and parts[0] in ("api", "apis"):
            found = self._discovery.answer(request, parts)
            return found if found is not None else _page_not_found()
        if len(parts) > 1 and parts[0] == "openapi":
            found = self._openapi.answer(request, parts)
            return found if found is not None else _page_not_found()
        if parts and parts[0] in ("healthz", "livez", "readyz"):
            return self._health(request, parts)
        if path == "/version":
            return HttpResponse(200, answers.headers("application/json"), _version())
        if path == "/.well-known/openid-configuration":
            return _json(self._tokens.configuration(), "application/json")
        if path == "/openid/v1/jwks":
            return _json(self._tokens.keys(), "application/jwk-set+json")
        if path == "/":
            paths = [
                "/api",
                "/api/v1",
                "/apis",
                "/healthz",
                "/livez",
                "/openapi/v2",
                "/openapi/v3",
                "/readyz",
                "/version",
            ]
            return HttpResponse(
                200, answers.headers("application/json"), negotiate.dump_json({"paths": paths}, pretty=True)
            )
        return _page_not_found()

    def _health(self, request: HttpRequest, parts: Sequence[str]) -> HttpResponse:
        if parts[0] == "readyz" and not self._ready:
            return _text(500, "[-]poststarthook failed: not ready\nreadyz check failed\n")
        if parts[1:] and parts[1] != "ping":
            return _page_not_found()
        if Query(request.query).flag("verbose"):
            return _text(200, f"[+]ping ok\n{parts[0]} check passed\n")
        return _text(200, "ok")


def _json(value: dict[str, Any], content_type: str) -> HttpResponse:
    headers = {"content-type": content_type, "cache-control": "public, max-age=3600"}
    return HttpResponse(200, headers, negotiate.dump_json(value))


def _text(status: int, text: str) -> HttpResponse:
    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    return HttpResponse(status, {**headers, "cache-control": answers.NO_CACHE}, text.encode())


def _page_not_found() -> HttpResponse:
    return _text(404, "404 page not found\n")


def _not_served() -> Problem:
    return resource_not_found()


def not_found_at(type_: ResourceType, route: Route) -> Problem:
    """A subresource that a custom kind does not have: as if the object were not there."""
    return not_found(type_.plural, type_.group, route.name)


def _version() -> bytes:
    return negotiate.dump_json(
        {
            "major": "1",
            "minor": "37",
            "emulationMajor": "1",
            "emulationMinor": "37",
            "minCompatibilityMajor": "1",
            "minCompatibilityMinor": "36",
            "gitVersion": VERSION,
            "gitCommit": "0000000000000000000000000000000000000000",
            "gitTreeState": "clean",
            "buildDate": "2026-01-01T00:00:00Z",
            "goVersion": "none",
            "compiler": "none",
            "platform": "any/any",
        },
        pretty=True,
    )
