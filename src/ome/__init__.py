"""OME, the Open Model Engine: a Kubernetes operator that serves large language models."""

__version__ = "1.3.0.dev0"
