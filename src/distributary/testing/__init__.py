"""The test kit that ships with the package: fakes, contract suites, and the ledger checker.

Callers: tests, benchmarks, people who write a transport or a log of their own. Product code
never imports it. Import its modules; each says what it holds.
"""
