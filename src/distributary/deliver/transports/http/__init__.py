"""HTTP: events to webhooks, through the project's own client on ``httptools``.

Called by ``app``. Hides connections, keep-alive, request and response framing, deadlines.
"""

from distributary.deliver.transports.http._transport import HttpTransport

__all__ = ["HttpTransport"]
