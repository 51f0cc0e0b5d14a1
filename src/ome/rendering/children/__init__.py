"""Builders of the objects that an InferenceService owns.

Pure functions from plain values to plain dicts, each the body of one server-side apply. Nothing here decides
*whether* an object exists, reads a cluster or looks at what is there: `ome.services` does. Pod templates come
rendered from `ome.rendering`.
"""
