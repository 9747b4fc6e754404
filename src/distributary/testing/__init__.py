"""The test kit that ships with the package: fakes, contract suites, and the ledger checker.

Callers: tests, benchmarks, authors of further transports or logs. Product code never imports it. It
needs no server, broker or browser; ``tests/kit`` of the repository starts those. Import its modules
directly.
"""
