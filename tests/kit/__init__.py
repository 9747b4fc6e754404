"""Test drivers of this repository: start, watch and kill servers and brokers.

Callers: tests and benchmarks. ``distributary.testing`` is the kit for users of the package (virtual
time, memory log, scripted transport, ``check_*``); it does not import this one.
"""
