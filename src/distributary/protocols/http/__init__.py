"""HTTP webhooks."""

from distributary.resource import Protocol

__all__ = ["PROTOCOLS"]

PROTOCOLS = (
    Protocol(
        name="HTTP",
        title="HTTP",
        sink="distributary.protocols.http.sink:make",
    ),
)
