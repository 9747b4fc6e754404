"""The Subscriptions API: its resource, its store, and its operations over each protocol."""
