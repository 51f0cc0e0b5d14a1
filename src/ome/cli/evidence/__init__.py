"""What kubectl-ome concludes from objects it has read. Pure decisions: plain objects in, report values out; no
reading here.

Objects stay plain dicts on purpose: a report has to show malformed values as malformed, and a guarded action compares
the stored form.
"""
