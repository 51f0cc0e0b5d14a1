"""The embedded API server as a whole, through `handle()`."""
