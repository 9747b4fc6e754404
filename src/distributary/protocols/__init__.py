"""Delivery protocols: one folder each, with a descriptor (``core.protocol.Protocol``).

Found through the entry point group ``distributary.protocols``, which other packages may extend.
Only the receiver (HTTP) and the Subscriptions API over AMQP import one of these folders directly.
"""
