"""Webhooks: what OME accepts and changes at admission, and the certificate they are served with.

The checks are pure functions over the object, its old self and a `World` of lookups; `ome.admission.server` puts them
behind HTTPS. Only `ome.manager` starts it.
"""
