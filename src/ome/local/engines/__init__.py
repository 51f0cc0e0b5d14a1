"""The programs that process pods run: small model servers for a laptop, each an ordinary process behind an HTTP port.

They know nothing of Kubernetes beyond their arguments, their environment and SIGTERM. Chosen by image name
(`local/engine`, `local/llama`, `local/router`); started as `python3 -m ome.local.engines.<name>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# The image's name (without tag) -> the module that runs when the container has no command of its own.
BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "local/engine": "ome.local.engines.engine",
        "local/llama": "ome.local.engines.llama",
        "local/router": "ome.local.engines.router",
    }
)


def built_in_module(image: str) -> str | None:
    """The module behind an image reference, or None when nothing is built in for it."""
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    return BUILT_IN.get(f"{head}{slash}{tail.partition(':')[0]}")
