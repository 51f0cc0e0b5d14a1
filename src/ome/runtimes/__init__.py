"""Choosing a runtime: by name with inheritance, by selection, by pin; accelerator classes; revisions and their
collection.

Decisions are pure modules; `build` gives this room's three controllers.
"""
