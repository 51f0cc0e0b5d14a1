"""A kubeconfig for the administrator of the embedded cluster."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Final

CONTEXT: Final = "ome-local"


def write_kubeconfig(path: Path, server: str, bundle: str, token: str) -> None:
    """Write the file, readable by its owner alone. It is JSON, which every kubeconfig reader takes as YAML."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {"server": server, "certificate-authority-data": base64.b64encode(bundle.encode()).decode()},
            }
        ],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
        "current-context": CONTEXT,
    }
    part = path.with_suffix(".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(config, file, indent=2)
    part.replace(path)
