"""`kubectl ome runtime tree`: three bounded lists, one tree."""

from __future__ import annotations

from typing import Any

import click

from ome.cli.app import App
from ome.cli.errors import DEADLINE_EXCEEDED, CliError
from ome.cli.evidence import objects
from ome.cli.flags import Command, arguments, check_output, exactly, output_option, text_option

_FORMATS = ("table", "wide", "json", "yaml")
_KINDS = ("ServingRuntime", "ClusterServingRuntime")


def _target(session: Any, name: str, kind: str) -> Any:
    """The runtime by name: of the kind asked for, or of the one kind that has it."""
    from ome.cli.runtime_reads import find_runtime

    namespaced = cluster = None
    if kind != "ClusterServingRuntime":
        namespaced = find_runtime(session, "ServingRuntime", session.namespace, name)
    if kind != "ServingRuntime":
        cluster = find_runtime(session, "ClusterServingRuntime", "", name)
    if namespaced is not None and cluster is not None:
        raise CliError(
            f'runtime "{name}" is ambiguous; pass --kind ServingRuntime or --kind ClusterServingRuntime: '
            f'runtime target is ambiguous: "{name}" matched 2 runtimes'
        )
    found = namespaced or cluster
    if found is None:
        raise CliError(f'project runtime inheritance tree: runtime target was not found: "{name}"')
    return found


def _runtimes(session: Any, resource: Any, namespace: str) -> tuple[list[Any], Any]:
    """A complete runtime list; anything less ends the command."""
    from ome.cli.evidence.chains import member
    from ome.cli.evidence.tree import Listing
    from ome.kube.errors import KubeError

    def refuse(word: str, pages: int, items: int) -> CliError:
        return CliError(
            f"runtime tree requires complete runtime evidence: {resource.kind} collection is {word} "
            f"(pages={pages} items={items}); restore list access or narrow the runtime scope, then retry"
        )

    try:
        found = session.listing(resource, namespace)
    except KubeError as error:
        raise refuse("unavailable", 0, 0) from error
    if found.truncated:
        raise refuse("truncated", found.pages, len(found.items))
    members = [member(obj, objects.namespace(obj) if resource.namespaced else "") for obj in found.items]
    return members, Listing(resource.kind, _scope(resource, namespace), "Complete", found.pages, len(found.items))


def _scope(resource: Any, namespace: str) -> str:
    if not resource.namespaced:
        return "Cluster"
    return f"Namespace/{namespace}" if namespace else "AllNamespaces"


def _services(session: Any, namespace: str) -> tuple[list[Any], Any]:
    """The services; an incomplete list is a partial snapshot, an interrupted one an error."""
    from ome.cli.evidence.tree import Listing
    from ome.kube.errors import KubeError
    from ome.kube.resources import INFERENCE_SERVICES

    scope = _scope(INFERENCE_SERVICES, namespace)
    try:
        found = session.listing(INFERENCE_SERVICES, namespace)
    except CliError as error:
        raise CliError(f"collect InferenceServices: {error}") from error
    except KubeError as error:
        if "timed out" in str(error):
            raise CliError(f"collect InferenceServices: {DEADLINE_EXCEEDED}") from error
        return [], Listing("InferenceService", scope, "Unavailable", 0, 0)
    status = "Truncated" if found.truncated else "Complete"
    return found.items, Listing("InferenceService", scope, status, found.pages, len(found.items))


def _tree(args: tuple[str, ...], kind: str, output: str, show_unattributed_users: bool) -> None:
    from ome.cli.evidence import tree
    from ome.cli.output.report import encode, report
    from ome.cli.session import Session
    from ome.kube.resources import CLUSTER_SERVING_RUNTIMES, SERVING_RUNTIMES

    exactly(args, 1)
    check_output(output, _FORMATS)
    if kind and kind not in _KINDS:
        raise CliError(f'unsupported runtime kind "{kind}" (supported: ServingRuntime, ClusterServingRuntime)')
    name = args[0]
    if not objects.is_subdomain(name):
        raise CliError(f'runtime name "{name}" is invalid: it must be a lowercase RFC 1123 subdomain')
    app: App = click.get_current_context().obj
    session = Session.open(app)
    target = _target(session, name, kind)
    namespace = target.namespace
    cluster, cluster_listing = _runtimes(session, CLUSTER_SERVING_RUNTIMES, "")
    namespaced, namespaced_listing = _runtimes(session, SERVING_RUNTIMES, namespace)
    services, service_listing = _services(session, namespace)
    listings = [cluster_listing, namespaced_listing, service_listing]
    show = show_unattributed_users
    found = tree.tree(target, [*cluster, *namespaced], services, listings, show_unattributed=show)
    if output in ("table", "wide"):
        lines = tree.lines(found, wide=output == "wide", show_unattributed=show)
        app.out("".join(f"{line}\n" for line in lines))
        return
    document = report(
        "RuntimeTreeReport",
        namespace,
        name,
        app.collected_at(),
        tree.content(found, show_unattributed=show),
        sources=[listing.kind for listing in listings],
        warnings=found.warnings,
    )
    app.out(encode(document, output))


command = Command(
    "tree",
    _tree,
    params=[
        arguments("RUNTIME"),
        text_option("--kind", help="ServingRuntime or ClusterServingRuntime; found out when left out."),
        output_option(),
        click.Option(["--show-unattributed-users"], is_flag=True, help="Also list services whose runtime is unknown."),
    ],
    help="Show what a runtime inherits, which runtimes inherit from it, and the services that name them.",
)
