"""Starts, watches and restarts child processes, and tells whether they are well."""
