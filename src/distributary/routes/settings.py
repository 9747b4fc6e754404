"""Where the route of a Trigger or a messaging Subscription delivers: what the store keeps of it.

``knative.reconcile`` writes it, in the transaction of the route's change; the pipeline reads it at
each attempt (DESIGN rules 4 and 5). Everything is resolved: URIs, not references.
"""

from typing import Literal

import msgspec


class RouteEndpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A resolved destination.

    Attributes:
        uri: Absolute, as the status shows it.
        dial: ``host:port`` to connect to instead of the URI's; None: the URI's.
        own: It is a Broker or Channel of this server.
        ca_certs: PEM; None: the system's certificates alone.
    """

    uri: str
    dial: str | None = None
    own: bool = False
    ca_certs: str | None = None


class RouteSettings(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How the deliveries of one route are made.

    Attributes:
        name: For people: ``Trigger default/orders``.
        namespace: Of that object: its deliveries say it. None: written before they did.
        sink: Where events go. Where it does not resolve any more: the last one that did.
        unusable: Why nothing can be sent to *sink* now; each attempt fails and is made again.
        refused: Why the operator's settings let nothing be sent there now; the route's events wait.
        wants_reply: Say ``Prefer: reply`` to *sink*.
        reply: Where the sink's replies go; None: they are dropped.
        reply_kept: See ``core.engine.RouteTarget``: a Trigger's reply goes back to its Broker.
        dead_letter: Where an event goes that could not be delivered; None: it is kept.
        retry: Retries after the first attempt.
        backoff_policy: ``linear`` or ``exponential``.
        backoff_delay_s: The first wait.
        backoff_max_s: Ceiling of a wait.
        timeout_s: Deadline of one attempt.
        retry_after_max_s: The most that ``Retry-After`` counts; None: *backoff_max_s*.
        format: ``binary`` or ``structured``.
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


def encode_settings(settings: RouteSettings) -> bytes:
    """*settings* as the store keeps them: JSON; equal settings give equal bytes."""
    return msgspec.json.encode(settings)


def decode_settings(body: bytes) -> RouteSettings:
    """What ``encode_settings`` wrote.

    Raises:
        ValueError: Damage, or a newer version wrote it.
    """
    return msgspec.json.decode(body, type=RouteSettings)
