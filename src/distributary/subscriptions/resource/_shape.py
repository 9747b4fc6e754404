"""The shape of a subscription of the CloudEvents Subscriptions API, checked and complete."""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from distributary.core.deliver.broker_settings import BrokerSettings, HttpSettings
from distributary.core.deliver.credential import Credential
from distributary.core.policy import DeliveryPolicy
from distributary.core.protocol import EventFormat
from distributary.subscriptions.resource._secret_settings import SecretSettings

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
"""What ``config.start`` may say beside a time."""


@dataclass(frozen=True, slots=True)
class DeadLetterSpec:
    """A dead letter sink; it has no further one.

    Attributes:
        sink: Absolute URI.
        protocol: Of the delivery.
        settings: How to send: those of the protocol.
        format: Content mode: ``binary`` or ``structured`` (JSON).
        ca_certs: PEM of certificates that it is trusted by, besides the system's; None: none.
        policy: How often an event is sent, and how long is waited between (decisions 12 and 21).
    """

    sink: str
    protocol: str
    settings: HttpSettings | BrokerSettings
    format: EventFormat
    ca_certs: str | None = field(repr=False)
    policy: DeliveryPolicy


@dataclass(frozen=True, slots=True)
class ConfigSpec:
    """How events come to be for this subscription (``config``; decision 11).

    Attributes:
        interval_s: A timer makes an event so often, seconds; None: there is no timer.
        timer_data: JSON of the data of these events; None: they have none.
        timer_type: Their ``type``, where ``types`` names none; None: the default.
        begin_ms: Where in the history a new subscription begins: the wall-clock time in
            milliseconds; 0: the oldest event that is kept; None: now.
        expires_ms: When the subscription ends by itself, wall clock, milliseconds.
        events_max: How many events are delivered before it ends by itself.
    """

    interval_s: float | None = None
    timer_data: bytes | None = None
    timer_type: str | None = None
    begin_ms: int | None = None
    expires_ms: int | None = None
    events_max: int | None = None


@dataclass(frozen=True, slots=True)
class ApiSubscriptionSpec:
    """What a subscriber wants: which events, and where and how they are sent.

    Made by ``parse`` from a client's proposal or by ``restore`` from the store.

    Attributes:
        source: Exact match on ``source``; None: any.
        types: Any-of match on ``type``; empty: any.
        filters: Filter expressions, all of which must hold; empty: every event passes.
        sink: Absolute URI.
        protocol: Of the delivery.
        settings: How events are sent: those of the protocol.
        format: Content mode: ``binary`` or ``structured`` (JSON).
        ca_certs: PEM of certificates that the sink is trusted by, besides the system's; None: none.
        policy: How often an event is sent, and how long is waited between (decisions 12 and 21).
        dead_letter: Where an event goes that could not be delivered; None: it is kept here.
        config: Timer, beginning and end.
        credential: What ``parse`` read; what the store knows is kept elsewhere, sealed, and is
            None after ``restore``. Only the subscription's own sink ever sees it (decision 10).
        secrets: What stands in ``realized`` and ``settings`` as ``***``; of ``parse`` alone, too.
        realized: JSON of the subscription object without its ``id``, in the newest revision of
            the specification, with every default filled in and every secret left out or masked.
    """

    source: str | None
    types: tuple[str, ...]
    filters: tuple[dict[str, Any], ...]
    sink: str
    protocol: str
    settings: HttpSettings | BrokerSettings
    format: EventFormat
    ca_certs: str | None = field(repr=False)
    policy: DeliveryPolicy
    dead_letter: DeadLetterSpec | None
    realized: bytes = field(repr=False)
    config: ConfigSpec = ConfigSpec()
    credential: Credential | None = None
    secrets: SecretSettings = field(default_factory=SecretSettings)

    def to_json(self) -> dict[str, Any]:
        """The realized object without its ``id``, as values of its own."""
        value: dict[str, Any] = msgspec.json.decode(self.realized)
        return value
