"""The embedded cluster: API server, controllers and node stand-in in one process. Nothing outside knows of it."""
