"""Delivery protocols: one folder each, with a descriptor (``core.protocol.Protocol``).

Found through the entry point group ``distributary.protocols``; a package of somebody else adds one
in the same way. Nobody imports a folder from outside but those who speak its protocol to others:
the receiver (HTTP) and the Subscriptions API over AMQP.
"""
