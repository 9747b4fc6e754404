"""Delivery settings of the routes of Triggers and messaging Subscriptions, as stored.

``knative.reconcile`` submits them with a route's change, and the store writes them in the same
transaction; partition consumers read them at each attempt. All destinations are resolved URIs.
"""

from typing import Literal

import msgspec


class RouteEndpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A resolved destination.

    Attributes:
        uri: Absolute, as the status shows it.
        dial: ``host:port`` to connect to instead of the URI's; None: the URI's.
        own: Whether it is a Broker or Channel of this server.
        ca_certs: PEM that the object itself names; None: none. In rows of versions without
            *bundles*, also what the operator's bundles held.
        bundles: PEM of the operator's bundles; None: none.
        audience: Deliveries there show a token for it, where the server has a key to sign one.
            None: none.
    """

    uri: str
    dial: str | None = None
    own: bool = False
    ca_certs: str | None = None
    audience: str | None = None
    bundles: str | None = None

    @property
    def trusted(self) -> str | None:
        """PEM of what it is trusted by; None: the system's certificates alone."""
        return "\n".join(filter(None, (self.ca_certs, self.bundles))) or None


class RouteSettings(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Delivery settings of one route.

    Attributes:
        name: For people: ``Trigger default/orders``.
        namespace: Of that object; sent with its deliveries. None: written before they carried it.
        sink: Where events go; the last destination that resolved, if the current one does not.
        unusable: Why nothing can be sent to *sink* now; attempts fail and are retried.
        refused: Why the operator's settings allow no delivery to *sink* now; events wait.
        wants_reply: Send ``Prefer: reply`` to *sink*.
        reply: Where the sink's replies go; None: they are dropped.
        reply_kept: As in ``core.engine.RouteTarget``: a Trigger's reply goes back to its Broker.
        dead_letter: Where undeliverable events go; None: they are kept.
        retry: Retries after the first attempt.
        backoff_policy: ``linear`` or ``exponential``.
        backoff_delay_s: The first wait.
        backoff_max_s: Ceiling of a wait.
        timeout_s: Deadline of one attempt.
        retry_after_max_s: Ceiling for ``Retry-After``; None: *backoff_max_s*.
        format: ``binary`` or ``structured``.
        credential: Name of the Secret in *namespace* that *sink* is shown; None: none.
        signature: Name of the Secret in *namespace* whose keys sign what goes to *sink*; None:
            nothing is signed.
        subject: Who its deliveries say they are, in tokens; None: no destination has an audience.
        lifecycle: Whether *sink* gets events about the route itself.
    """

    name: str
    namespace: str | None = None
    sink: RouteEndpoint
    unusable: str | None = None
    refused: str | None = None
    wants_reply: bool = False
    reply: RouteEndpoint | None = None
    reply_kept: bool = False
    dead_letter: RouteEndpoint | None = None
    retry: int
    backoff_policy: Literal["linear", "exponential"]
    backoff_delay_s: float
    backoff_max_s: float
    timeout_s: float
    retry_after_max_s: float | None = None
    format: Literal["binary", "structured"] = "binary"
    subject: str | None = None
    credential: str | None = None
    signature: str | None = None
    lifecycle: bool = False


def encode_settings(settings: RouteSettings) -> bytes:
    """Encode *settings* as JSON; equal settings give equal bytes."""
    return msgspec.json.encode(settings)


def decode_settings(body: bytes) -> RouteSettings:
    """Decode what ``encode_settings`` wrote.

    Raises:
        ValueError: *body* is damaged, or written by a newer version.
    """
    return msgspec.json.decode(body, type=RouteSettings)
