"""`python -m ome.install print|apply`: the manifest install, as YAML on standard output or into the current cluster."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from typing import Any

import yaml

from ome.api.crds import FEATURES
from ome.install import ServiceWebhook, UrlWebhook, manifests


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when done, 1 when kubectl failed or is missing, 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    objects = _selected(options)
    if options.action == "print":
        yaml.dump_all(objects, sys.stdout, Dumper=_dumper(), sort_keys=False, width=120)
        return 0
    return _apply(objects, options.kubectl_arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ome.install", description=__doc__)
    parser.add_argument("action", choices=["print", "apply"])
    parser.add_argument("--namespace", default="ome", help="OME's namespace (default: ome)")
    parser.add_argument(
        "--config", choices=["chart", "kustomize"], default="kustomize", help="defaults of inferenceservice-config"
    )
    parser.add_argument("--feature", action="append", default=[], choices=FEATURES, help="switch an alpha kind on")
    parser.add_argument("--certificates", choices=["self-made", "cert-manager"], default="cert-manager")
    parser.add_argument("--crds-only", action="store_true", help="only the CustomResourceDefinitions")
    parser.add_argument(
        "--webhook-url", default="", help="the manager runs outside the cluster: the base URL of its webhooks"
    )
    parser.add_argument("kubectl_arguments", nargs="*", help="after --: further arguments for kubectl apply")
    return parser


def _selected(options: argparse.Namespace) -> list[dict[str, Any]]:
    outside = bool(options.webhook_url)
    objects = manifests(
        webhook=UrlWebhook(options.webhook_url) if outside else ServiceWebhook(options.namespace),
        namespace=options.namespace,
        config=options.config,
        features=tuple(options.feature),
        certificates="self-made" if outside else options.certificates,
        workload=not outside,
    )
    if options.crds_only:
        return [entry for entry in objects if entry["kind"] == "CustomResourceDefinition"]
    return objects


def _apply(objects: list[dict[str, Any]], more: list[str]) -> int:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        print("kubectl is not on the PATH; install it, or use `print` and apply the output yourself", file=sys.stderr)
        return 1
    # Server-side: the CRDs are larger than the annotation that a client-side apply would write.
    command = [kubectl, "apply", "--server-side", "--force-conflicts", "-f", "-", *more]
    text = "\n---\n".join(json.dumps(entry) for entry in objects)
    return subprocess.run(command, input=text, text=True, check=False).returncode


def _dumper() -> Any:
    """A dumper that repeats shared parts instead of writing anchors, which kubectl users do not expect."""
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return type("PlainDumper", (base,), {"ignore_aliases": lambda self, data: True})


if __name__ == "__main__":
    sys.exit(main())
