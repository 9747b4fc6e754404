"""The drivers of this repository: servers and brokers that are started, watched and killed.

Callers: tests and benchmarks. What people who use the package can need (virtual time, memory log,
scripted transport, ``check_*``, simulation) is ``distributary.testing``, which knows nothing of
this.
"""
