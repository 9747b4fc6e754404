"""Knative Eventing: an API server, its kinds, and the reconciler that turns them into routes."""
