"""The InferenceService webhooks: every rejection and warning of `spec/inference-service.md` section 10, in its order.

Each module holds the rules of one theme as pure functions over a `Proposal`; `ome.admission.services.validator` puts
them in order. The mutating webhook changes nothing: defaults are the schema's.
"""
