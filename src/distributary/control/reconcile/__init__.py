"""Desired state of Knative's kinds -> routes -> status; see ``_reconciler``."""
