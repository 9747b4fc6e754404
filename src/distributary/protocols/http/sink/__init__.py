"""HTTP: events to webhooks, through the project's own client on ``httptools``.

Called by ``app``. Hides connections, keep-alive, request and response framing, deadlines.
"""

from distributary.protocols.http.sink._transport import HttpTransport

__all__ = ["HttpTransport"]
