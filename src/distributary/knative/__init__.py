"""Knative Eventing: an API server, the kinds, and the reconciler that makes routes of them."""
