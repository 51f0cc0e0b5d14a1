"""The language every other room speaks: typed objects, CRDs, canonical JSON, hashes, the operator's configuration."""
