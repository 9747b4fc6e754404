"""The server's own URLs: addresses of Brokers and Channels, and how to recognize them."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from distributary.access import audience_of
from distributary.core.deliver.endpoint import UNIX
from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import path_of
from distributary.resource import SinkRule, takes_events


@dataclass(frozen=True, slots=True)
class Site:
    """URLs of this server, and the rule for sinks.

    Attributes:
        public_url: Scheme, host and port by which others reach it, without a path.
        dial: Where it reaches itself, in plain HTTP even if *public_url* is https: ``host:port``,
            or ``unix:`` and the path of a socket; None: by *public_url*.
        sinks: Which addresses events may be sent to.
        aliases: Other URLs of this server, without a path: the address that it listens on. Events
            sent there must carry their hop count as well, or a loop would not end.
        audiences: Whether clients must show who they are: then addresses name an audience.
    """

    public_url: str
    dial: str | None
    sinks: SinkRule
    aliases: tuple[str, ...] = ()
    audiences: bool = False

    def url(self, key: Key) -> str:
        """URL of the Broker or Channel *key*, for its status."""
        return f"{self.public_url.rstrip('/')}/{path_of(key)}"

    def audience(self, key: Key) -> str | None:
        """Audience of tokens for the Broker or Channel *key*; None: none is asked for."""
        target = path_of(key) if self.audiences else None
        return None if target is None else audience_of(target)

    def owns(self, uri: str, dial: str | None = None) -> bool:
        """Whether *uri* accepts events of this server, at its public URL or an alias.

        With *dial*, ``host:port``: whether that address is ours, as for a Service that points to
        this server. Our other paths accept no events: the rule for sinks applies to them.
        """
        ours = (self.public_url, *self.aliases)
        if dial is not None:
            # Whatever the Service's URL says, what listens at that address decides.
            scheme = urlsplit(self.aliases[0]).scheme if self.aliases else "http"
            uri = urlsplit(uri)._replace(scheme=scheme, netloc=dial).geturl()
            if self.dial is not None and not self.dial.startswith(UNIX):
                ours = (f"{scheme}://{self.dial}", *ours)
        return takes_events(uri, ours)
