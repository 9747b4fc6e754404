"""The Subscriptions API: its resource, its store, and its operations by each protocol."""
