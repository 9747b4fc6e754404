"""A small Kubernetes API server: its conventions, the object store, and HTTP."""
