"""BaseModels and ClusterBaseModels: their status from the marks that model agents leave on nodes (spec/models.md).

`build` gives the controllers. Downloading weights is the model agent's, using them in pods `ome.rendering.models`'.
"""

from ome.models.controller import build

__all__ = ["build"]
