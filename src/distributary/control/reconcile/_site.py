"""Where this server is reached: the addresses of Brokers and Channels, and what lies under them."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from distributary.control.objects import path_of
from distributary.resource import SinkRule
from distributary.resource.kubernetes import Key

EVENTS_PATH: Final = "/events"
ADDRESS_PREFIXES: Final = ("/brokers/", "/channels/")
"""Where this server takes events."""

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Site:
    """This server, as others see it.

    Attributes:
        public_url: Scheme, host and port by which others reach it, without a path.
        dial: ``host:port`` on this machine by which it reaches itself, in plain HTTP also where
            *public_url* is https; None: by *public_url*, as everybody else.
        sinks: Which addresses events may be sent to.
        aliases: Other URLs that lead here, without a path: the address that it listens on. An
            event sent there must take its passes along as well, or a loop would not end.
    """

    public_url: str
    dial: str | None
    sinks: SinkRule
    aliases: tuple[str, ...] = ()

    def url(self, key: Key) -> str:
        """What the Broker or Channel *key* shows as its address."""
        return f"{self.public_url.rstrip('/')}/{path_of(key)}"

    def owns(self, uri: str, dial: str | None = None) -> bool:
        """*uri* takes events at our own public URL, or at one that leads here as well.

        So does one whose *dial*, ``host:port``, is an address of ours: a Service that stands for
        this server. Other paths of ours take no events: they are like anybody's, and the rule for
        addresses counts.
        """
        path = urlsplit(uri).path
        if path != EVENTS_PATH and not path.startswith(ADDRESS_PREFIXES):
            return False
        reached = f"http://{self.dial}" if self.dial else self.public_url
        ours = {_origin(url) for url in (self.public_url, reached, *self.aliases)}
        return _origin(uri if dial is None else f"http://{dial}") in ours


def _origin(uri: str) -> tuple[str, str, int | None]:
    """Scheme, host and port (RFC 6454, section 4)."""
    parts = urlsplit(uri)
    host = (parts.hostname or "").rstrip(".")
    return parts.scheme, host, parts.port or _PORTS.get(parts.scheme)
