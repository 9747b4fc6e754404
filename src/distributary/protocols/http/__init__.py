"""The HTTP protocol: webhooks."""

from distributary.core.protocol import Protocol, Scheme
from distributary.protocols.http import settings

PROTOCOLS = (
    Protocol(
        name="HTTP",
        title="HTTP",
        schemes={
            "http": Scheme(80, with_tls="https", path="request"),
            "https": Scheme(443, tls=True, path="request"),
        },
        sink="distributary.protocols.http.sink:make",
        settings=settings.SETTINGS,
        restore=settings.restore,
        masked="headers",
        example={
            "sink": "https://example.com/event-processor",
            "protocol": "HTTP",
            "filters": [{"prefix": {"type": "com.example."}}],
        },
    ),
)
