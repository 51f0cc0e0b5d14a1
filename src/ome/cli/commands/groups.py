"""The groups below the root. Their leaves are imported when they run."""

from __future__ import annotations

from ome.cli.tree import group

instance = group("instance", "Instances and retry blocks of OMENative components.")
runtime = group("runtime", "Serving runtimes: selection, inheritance, revisions.")
migration = group("migration", "Migrations of Instances between nodes.")
rollout = group("rollout", "Rollouts: status, pause, resume.")
autoscale = group("autoscale", "Autoscaling of components.")
