"""The form of the token that `runtime sync` writes and `wait` looks for."""

TOKEN_PREFIX = "cli-runtime-sync-"
