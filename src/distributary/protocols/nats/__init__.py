"""NATS, with and without JetStream."""
