"""Text from the cluster, made fit for a terminal: neutralised, cut, aliased, redacted. Pure.

Everything that is printed goes through `neutralise`, whoever wrote it; the cuts and aliases are those of
spec/cli-instance.md and spec/cli-runtime-and-wait.md.
"""

from __future__ import annotations

import re
from functools import cache

ELLIPSIS = "..."

# C0 and C1 controls, soft hyphen, and everything that reorders, hides or breaks a line: bidirectional marks, zero-width
# characters, line and paragraph separators, interlinear and tag characters, lone surrogates.
_CONTROLS = r"\x00-\x1f"
_HIDDEN = (
    r"\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
_CREDENTIAL = (
    r"(?i)(pass(word|wd|phrase)?|secret|token|api[-_ ]?key|access[-_ ]?key|credential|authorization)s?[\"']?\s*"
    r"[:=]\s*\S"
    r"|\b(bearer|basic)\s+[a-z0-9+/._~-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r"|\b(hf_|ghp_|gho_|github_pat_|xox[abp]-|sk-)[A-Za-z0-9_-]{8,}"
    r"|\bAKIA[A-Z0-9]{12,}"
)


@cache
def _pattern(source: str) -> re.Pattern[str]:
    # Compiled at first use: a command pays only for the patterns it needs.
    return re.compile(source)


def _hostile() -> re.Pattern[str]:
    return _pattern(f"[{_CONTROLS}{_HIDDEN}]")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def neutralise(text: str) -> str:
    """The text with every control and bidirectional character shown as its escape, so that it can change no
    terminal.
    """
    if text.isascii() and text.isprintable():
        return text
    return _hostile().sub(_escaped, text)


def neutralise_json(document: str) -> str:
    """A JSON document with the same characters as JSON escapes: the value stays equal, the terminal stays safe. Line
    breaks are layout.
    """

    def escape(match: re.Match[str]) -> str:
        code = ord(match.group())
        if code <= 0xFFFF:
            return f"\\u{code:04x}"
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"

    return _pattern(f"[{_HIDDEN}]").sub(escape, document)


def is_hostile(text: str) -> bool:
    return _hostile().search(text) is not None


def cut(text: str, limit: int) -> str:
    """At most `limit` characters: the first limit-3 and `...` when it is longer (spec/cli-instance.md section 1)."""
    return text if len(text) <= limit else text[: limit - len(ELLIPSIS)] + ELLIPSIS


def digest(text: str, length: int = 8) -> str:
    """The start of the SHA-256 of the whole name: every digest the tool prints (spec/cli-runtime-and-wait.md section
    2.2).
    """
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def bounded_name(name: str, limit: int = 54) -> str:
    """A long name keeps its start and end around `...` and gains `#` and its digest, so that two of them stay apart."""
    if len(name) <= limit:
        return name
    room = limit - len(ELLIPSIS) - 9
    head = room - room // 2
    return f"{name[:head]}{ELLIPSIS}{name[len(name) - room // 2 :]}#{digest(name)}"


def looks_like_credential(text: str) -> bool:
    return _pattern(_CREDENTIAL).search(text) is not None


def redacted(text: str) -> str:
    """`[REDACTED]` in place of text that looks like a credential (spec/cli-instance.md section 1)."""
    return "[REDACTED]" if looks_like_credential(text) else text


def masked(text: str) -> str:
    """Reasons and messages of conditions and events: no address, no credential (spec/cli-status-get-logs.md section
    1).
    """
    if "://" in text:
        return "[OMITTED]"
    return redacted(text)
