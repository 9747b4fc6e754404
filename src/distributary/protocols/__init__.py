"""Delivery protocols: one folder each, with a descriptor (``core.protocol.Protocol``).

Other packages add theirs through the entry point group ``distributary.protocols``.
Only the receiver (HTTP) and the Subscriptions API over AMQP import one of these folders directly.
"""
