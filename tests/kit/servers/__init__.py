"""Real brokers for tests and benchmarks: started on free ports, with TLS and passwords.

Called by ``tests/brokers`` and ``benchmarks``. Each server is a context manager that starts in its
own temporary folder and can be killed, stopped, and started again with what it had on disk.
"""

from kit.servers._base import (
    PASSWORD,
    USER,
    BrokerServer,
    ServerNotHadError,
)
from kit.servers._tls import Authority, Certificate

__all__ = [
    "PASSWORD",
    "USER",
    "Authority",
    "BrokerServer",
    "Certificate",
    "ServerNotHadError",
]
