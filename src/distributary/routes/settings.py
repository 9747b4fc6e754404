"""Delivery settings of the routes of Triggers and messaging Subscriptions, as stored.

``knative.reconcile`` submits them with a route's change, and the store writes them in the same
transaction; partition consumers read them at each attempt. All destinations are resolved URIs.
"""

import dataclasses
from typing import Any, Final, Literal

import msgspec

from distributary.core.policy import DeliveryPolicy

_OF_POLICY: Final = {
    each.name: each.default is not None for each in dataclasses.fields(DeliveryPolicy)
}
"""Members of stored settings that make the policy -> whether each row has it."""


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
        policy: Retries, waits and deadline.
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
    policy: DeliveryPolicy
    format: Literal["binary", "structured"] = "binary"
    subject: str | None = None
    credential: str | None = None
    signature: str | None = None
    lifecycle: bool = False


def encode_settings(settings: RouteSettings) -> bytes:
    """Encode *settings* as JSON, the members of the policy among the others.

    Equal settings give equal bytes, in every version.
    """
    members = dict[str, Any]()
    for name, value in msgspec.to_builtins(settings).items():
        if name == "policy":
            members |= {each: number for each, number in value.items() if number is not None}
        else:
            members[name] = value
    return msgspec.json.encode(members)


def decode_settings(body: bytes) -> RouteSettings:
    """Decode what ``encode_settings`` wrote.

    Raises:
        ValueError: *body* is damaged, or written by a newer version.
    """
    members = msgspec.json.decode(body, type=dict[str, Any])
    missing = [name for name, needed in _OF_POLICY.items() if needed and name not in members]
    if missing:
        raise ValueError(f"no member {missing[0]}")
    members["policy"] = {name: members.pop(name) for name in _OF_POLICY if name in members}
    try:
        return msgspec.convert(members, RouteSettings)
    except AssertionError as error:
        raise ValueError("a number beyond what a policy allows") from error
