"""Where this server is reached: the addresses of Brokers and Channels, and what lies under them."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import path_of
from distributary.resource import SinkRule, takes_events


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
        ours = (self.public_url, *self.aliases)
        if dial is not None:
            uri = urlsplit(uri)._replace(scheme="http", netloc=dial).geturl()
            ours = (f"http://{self.dial}", *ours) if self.dial else ours
        return takes_events(uri, ours)
