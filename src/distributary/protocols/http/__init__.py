"""HTTP webhooks."""
