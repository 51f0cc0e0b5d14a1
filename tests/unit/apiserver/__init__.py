"""The pure parts of the embedded API server: paths, selectors, forms, the store, columns, protobuf."""
