"""Which images exist, and how a kubelet waits for one that does not. Pure.

Every reference exists unless a pattern of the ConfigMap `local-images` in `kube-system` denies it. Patterns are
shell patterns for the whole reference as the pod writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

CONFIG_MAP: Final = "local-images"
CONFIG_NAMESPACE: Final = "kube-system"
DENIED_KEY: Final = "denied"
FIRST_BACKOFF: Final = 10.0
LAST_BACKOFF: Final = 300.0

_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::\d+)?"
_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(
    rf"^(?:(?P<domain>{_DOMAIN})/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?$"
)


@dataclass(frozen=True, slots=True)
class ImagePolicy:
    """The patterns of images that do not exist."""

    denied: Sequence[str] = ()

    def denies(self, image: str) -> bool:
        return any(fnmatchcase(image, pattern) for pattern in self.denied)


def policy_from(data: Mapping[str, str] | None) -> ImagePolicy:
    """The policy in the ConfigMap's data: key `denied`, one pattern a line."""
    lines = (data or {}).get(DENIED_KEY, "").splitlines()
    return ImagePolicy(tuple(line.strip() for line in lines if line.strip()))


def invalid_reference(image: str) -> str:
    """Why a runtime cannot even parse the reference, in its words; empty when it can."""
    if _REFERENCE.match(image):
        return ""
    detail = "invalid reference format"
    if _REFERENCE.match(image.lower()):
        detail += f": repository name ({_familiar(image)}) must be lowercase"
    return f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {detail}'


def _familiar(image: str) -> str:
    path = image.split("@", 1)[0]
    head, slash, tail = path.rpartition("/")
    path = f"{head}{slash}{tail.split(':', 1)[0]}"
    return path if "/" in path else f"library/{path}"


def pull_error(image: str) -> str:
    """What the runtime says of an image that is not there."""
    reference = image if "@" in image or ":" in image.rsplit("/", 1)[-1] else f"{image}:latest"
    full = reference if _has_registry(reference) else f"docker.io/{'' if '/' in reference else 'library/'}{reference}"
    return (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{full}": '
        f'failed to resolve reference "{full}": {full}: not found'
    )


def _has_registry(reference: str) -> bool:
    first, slash, _ = reference.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


def next_backoff(last: float) -> float:
    """The wait after one more failure: 10 s, doubling to 5 minutes."""
    return min(LAST_BACKOFF, last * 2) if last else FIRST_BACKOFF
