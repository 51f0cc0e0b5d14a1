"""The thin click commands: flags in, one call into evidence or actions, one rendering out. Each module is imported
when its command runs.
"""
