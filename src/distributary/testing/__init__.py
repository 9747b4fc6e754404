"""The test kit that ships with the package: fakes, contract suites, and the ledger checker.

Callers: tests, benchmarks, people who write a transport or a log of their own. Product code
never imports it, and it needs no server, broker or browser: what starts those is no part of the
package (``tests/kit`` of the repository). Import its modules; each says what it holds.
"""
