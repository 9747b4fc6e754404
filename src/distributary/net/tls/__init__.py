"""TLS of this server's own listeners: certificates and handshakes.

Callers: ``server`` (ports of HTTP, health and other nodes), ``subscriptions.amqp``. Hides ``ssl``.
Connections to sinks are the connector's.
"""

from distributary.net.tls._certificates import (
    HTTP_ONLY,
    ServerCertificates,
    TlsFiles,
    make_context,
    read_certificates,
)
from distributary.net.tls._handshakes import (
    HANDSHAKES_MAX,
    HandshakeFailure,
    Handshakes,
)
from distributary.net.tls._listener import Listener
