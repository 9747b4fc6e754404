"""AMQP 1.0 connections on an event loop: proton's protocol engine without its sockets.

Called by the AMQP transport, the AMQP source and the AMQP binding of the Subscriptions API. Hides
proton: its engine, its events, its types.
"""
