"""The shape of a subscription of the CloudEvents Subscriptions API, validated and complete."""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from distributary.core.deliver.broker_settings import SinkSettings
from distributary.core.deliver.credential import ClientCertificate, Credential
from distributary.core.policy import DeliveryPolicy
from distributary.core.protocol import EventFormat
from distributary.core.tenant import BROKER_NAME
from distributary.subscriptions.resource._secret_settings import SecretSettings

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
"""Value of ``config.start`` besides a time."""


@dataclass(frozen=True, slots=True)
class DeadLetterSpec:
    """A dead letter sink; it has no dead letter sink itself.

    Attributes:
        sink: Absolute URI.
        protocol: Of the delivery.
        settings: Those of the protocol.
        format: Content mode: ``binary`` or ``structured`` (JSON).
        ca_certs: PEM certificates that it is trusted by, besides the system's; None: none.
        policy: Retries and waits (decisions 12 and 21, retries and their defaults).
        client_certificate: Shown to it by TLS; None: none.
    """

    sink: str
    protocol: str
    settings: SinkSettings
    format: EventFormat
    ca_certs: str | None = field(repr=False)
    policy: DeliveryPolicy
    client_certificate: ClientCertificate | None = None


@dataclass(frozen=True, slots=True)
class ConfigSpec:
    """Timer, start and end of a subscription (``config``; decision 11, timers and ends).

    Attributes:
        interval_s: Between two timer events, seconds; None: no timer.
        timer_data: JSON data of timer events; None: none.
        timer_type: ``type`` of timer events, where ``types`` names none; None: the default.
        begin_ms: Point in history where a new subscription starts: wall-clock time in
            milliseconds; 0: the oldest event that is kept; None: now.
        expires_ms: When the subscription expires, wall clock, milliseconds.
        events_max: Deliveries after which it ends.
        broker: The Broker of its namespace that it listens to.
        lifecycle: Whether its sink gets events about it.
    """

    interval_s: float | None = None
    timer_data: bytes | None = None
    timer_type: str | None = None
    begin_ms: int | None = None
    expires_ms: int | None = None
    events_max: int | None = None
    broker: str = BROKER_NAME
    lifecycle: bool = False


@dataclass(frozen=True, slots=True)
class ApiSubscriptionSpec:
    """A subscription: which events it selects, and where and how they are sent.

    Made by ``parse`` from a client's proposal or by ``restore`` from the store.

    Attributes:
        source: Exact match on ``source``; None: any.
        types: Any-of match on ``type``; empty: any.
        filters: Filter expressions, all required; empty: every event passes.
        sink: Absolute URI.
        protocol: Of the delivery.
        settings: Those of the protocol.
        format: Content mode: ``binary`` or ``structured`` (JSON).
        ca_certs: PEM certificates that the sink is trusted by, besides the system's; None: none.
        policy: Retries and waits (decisions 12 and 21, retries and their defaults).
        dead_letter: Destination of undeliverable events; None: the server keeps them.
        config: Timer, start and end.
        client_certificate: Shown to the sink by TLS; None: none.
        credential: Set by ``parse``; None after ``restore``, since the store keeps credentials
            separately, sealed. Only the subscription's own sink gets it (decision 10,
            credentials).
        secrets: Values that ``realized`` and ``settings`` show as ``***``; set by ``parse`` alone.
        realized: JSON of the subscription object without its ``id``, in the newest revision of
            the specification, with every default filled in and every secret omitted or masked.
    """

    source: str | None
    types: tuple[str, ...]
    filters: tuple[dict[str, Any], ...]
    sink: str
    protocol: str
    settings: SinkSettings
    format: EventFormat
    ca_certs: str | None = field(repr=False)
    policy: DeliveryPolicy
    dead_letter: DeadLetterSpec | None
    realized: bytes = field(repr=False)
    config: ConfigSpec = ConfigSpec()
    client_certificate: ClientCertificate | None = None
    credential: Credential | None = None
    secrets: SecretSettings = field(default_factory=SecretSettings)

    def to_json(self) -> dict[str, Any]:
        """A copy of the realized object without its ``id``."""
        value: dict[str, Any] = msgspec.json.decode(self.realized)
        return value
