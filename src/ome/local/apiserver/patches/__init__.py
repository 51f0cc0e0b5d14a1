"""The three patch types as pure functions over parsed JSON: JSON patch, JSON merge patch, strategic merge patch.

Called by the server's write pipeline. None of them changes the document it is given; unchanged parts are shared with
the result. A patch that does not apply raises `Problem` with the words of a real API server. Server-side apply is not
here: `ome.local.apiserver.ownership`.
"""

from __future__ import annotations

from ome.local.apiserver.patches.json_patch import (
    MAX_OPERATIONS,
    DoesNotApplyError,
    apply_operations,
    json_patch,
    unknown_members,
)
from ome.local.apiserver.patches.merge import merge_patch
from ome.local.apiserver.patches.strategic import go_text, strategic_merge

__all__ = [
    "MAX_OPERATIONS",
    "DoesNotApplyError",
    "apply_operations",
    "go_text",
    "json_patch",
    "merge_patch",
    "strategic_merge",
    "unknown_members",
]
