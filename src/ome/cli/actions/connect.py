"""The connection of a guarded action: 45 s in all, each request at most 10 s, and identities that are safe to print
in a preview.
"""

from __future__ import annotations

from ome.cli.actions.guard import ACTION_SECONDS, REQUEST_SECONDS
from ome.cli.app import App
from ome.cli.errors import CliError
from ome.cli.evidence import objects
from ome.cli.output.text import is_hostile
from ome.cli.session import Session, cluster_config
from ome.kube.errors import ConfigError

NAMESPACE_FAILED = "resolve workload namespace failed"
CONTEXT_UNSAFE = "selected context is unavailable or unsafe"
MAX_CONTEXT = 253


def open_action(
    app: App,
    configuration_failed: str,
    namespaces_invalid: str,
    *,
    context_unsafe: str = CONTEXT_UNSAFE,
    namespace_failed: str = NAMESPACE_FAILED,
) -> Session:
    """The session of a writing command. The texts are the command's own for what can be wrong with a kubeconfig."""
    try:
        config = cluster_config(app.flags)
    except ConfigError as error:
        if "context" in str(error):
            raise CliError(context_unsafe) from error
        raise CliError(configuration_failed if app.flags.namespace else namespace_failed) from error
    session = Session(app, config, per_request=REQUEST_SECONDS, overall=ACTION_SECONDS)
    if not objects.is_label_name(session.namespace):
        raise CliError(namespaces_invalid)
    if len(session.context) > MAX_CONTEXT or is_hostile(session.context):
        raise CliError(context_unsafe)
    return session
