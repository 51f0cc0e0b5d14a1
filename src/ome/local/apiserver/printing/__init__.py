"""What `kubectl get` shows of each kind: columns and cells. Pure; `tables.py` makes Tables of it.

`layout(type_)` gives the columns of a served resource: from the table of built-in kinds, from a definition's printer
columns, or name and creation time.
"""

from __future__ import annotations

from ome.local.apiserver.printing.layouts import Layout
from ome.local.apiserver.registry import ResourceType


def layout(type_: ResourceType) -> Layout:
    """The columns of a resource."""
    if type_.custom is not None:
        from ome.local.apiserver.printing import custom

        return custom.layout(type_.custom)
    from ome.local.apiserver.printing import kinds

    return kinds.layout(type_.storage)


__all__ = ["Layout", "layout"]
