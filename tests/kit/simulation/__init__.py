"""A partition from log to sinks in virtual time, with crashes of its owner and seeded faults.

Callers: ``tests/simulation``, and unit tests of owners. The real consumer, engine, journal and
stores run over the ports of ``ports``, ``database`` and ``history``, which fail as told; the
checkers watch every step. Import its modules directly.
"""
