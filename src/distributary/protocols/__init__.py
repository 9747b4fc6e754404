"""Delivery protocols: one folder each, found through entry points (``registry``)."""
