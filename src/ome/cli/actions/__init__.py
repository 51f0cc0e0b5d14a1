"""The writing commands, all by one protocol (spec/cli-runtime-and-wait.md section 4): read, refuse or preview,
confirm, read again, patch once.
"""
