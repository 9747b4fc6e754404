"""A whole cluster on one machine: Spark with two workers, three brokers, PostgreSQL, two nodes.

Called by ``scripts/cluster.py``, ``tests/crash`` and the soak run. Every process is a member with a
name, and wires between members can be cut.
"""
