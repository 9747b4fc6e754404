"""Restores a spec from the realized object in the store."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from distributary.core.deliver.broker_settings import SinkSettings
from distributary.core.deliver.credential import ClientCertificate
from distributary.core.deliver.origins import origin_of
from distributary.core.policy import DeliveryPolicy
from distributary.core.protocol import protocols
from distributary.core.tenant import BROKER_NAME
from distributary.resource.delivery import policy_of
from distributary.resource.times import parse_time_ms
from distributary.resource.uri import place_in
from distributary.subscriptions.resource._secret_settings import CLIENT_CERTIFICATE
from distributary.subscriptions.resource._shape import (
    EARLIEST,
    LATEST,
    ApiSubscriptionSpec,
    ConfigSpec,
    DeadLetterSpec,
)


def restore(realized: bytes) -> ApiSubscriptionSpec:
    """Return the spec whose ``realized`` is *realized*, which was validated before it was stored.

    Raises:
        ValueError: *realized* is not such an object (damage, or a newer version wrote it).
    """
    try:
        value = msgspec.json.decode(realized)
        settings = value["protocolsettings"]
        protocol = value["protocol"]
        sent = protocols()[protocol].restore(settings)
        policy = policy_of(settings["delivery"])
        return ApiSubscriptionSpec(
            source=value.get("source"),
            types=tuple(value.get("types", ())),
            filters=tuple(value["filters"]),
            sink=value["sink"],
            protocol=protocol,
            settings=sent,
            format=settings["format"],
            ca_certs=settings.get("cacerts"),
            policy=policy,
            dead_letter=_dead_letter(value, sent, policy),
            realized=realized,
            config=_config(value.get("config", {})),
            client_certificate=_client_certificate(settings),
        )
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError, AssertionError) as error:
        raise ValueError(f"not a realized subscription: {error}") from error


def _config(value: Mapping[str, Any]) -> ConfigSpec:
    if not value:
        return ConfigSpec()
    expires = value.get("expires")
    return ConfigSpec(
        interval_s=value.get("interval"),
        timer_data=msgspec.json.encode(value["data"]) if "data" in value else None,
        timer_type=value.get("type"),
        begin_ms=_begin_ms(value.get("start", LATEST)),
        expires_ms=None if expires is None else parse_time_ms(expires),
        events_max=value.get("maxevents"),
        broker=value.get("broker", BROKER_NAME),
        lifecycle=value.get("lifecycle", False),
    )


def _begin_ms(start: str) -> int | None:
    if start == LATEST:
        return None
    return 0 if start == EARLIEST else max(0, parse_time_ms(start))


def _dead_letter(
    subscription: Mapping[str, Any], sent: SinkSettings, policy: DeliveryPolicy
) -> DeadLetterSpec | None:
    settings, protocol = subscription["protocolsettings"], subscription["protocol"]
    target = settings["delivery"].get("deadLetterSink")
    if target is None:
        return None
    if isinstance(target, str):  # the same protocol and settings, without a dead letter sink
        own_party = origin_of(subscription["sink"]).covers(origin_of(target))
        moved = _moved(sent, protocol, place_in(protocol, target), own_party=own_party)
        certificates = settings.get("cacerts")
        client = _client_certificate(settings) if own_party else None
        form = settings["format"]
        return DeadLetterSpec(target, protocol, moved, form, certificates, policy, client)
    own = target["protocolsettings"]
    return DeadLetterSpec(
        target["sink"],
        target["protocol"],
        protocols()[target["protocol"]].restore(own),
        own["format"],
        own.get("cacerts"),
        policy_of(own["delivery"]),
        _client_certificate(own),
    )


def _client_certificate(settings: Mapping[str, Any]) -> ClientCertificate | None:
    pair = settings.get(CLIENT_CERTIFICATE)
    return None if pair is None else ClientCertificate(pair["certificate"], pair["key"])


def _moved(
    settings: SinkSettings, protocol: str, place: str | None, *, own_party: bool
) -> SinkSettings:
    """The same settings, with *place* where the other URI names one.

    Another party (*own_party* is false) gets no setting that may hold the sink's secrets.

    Source:
        Decision 21, dead letter sinks.
    """
    row, changes = protocols()[protocol], dict[str, Any]()
    if row.placed is not None and place is not None:
        changes[row.placed] = place
    if row.masked is not None and not own_party:
        changes[row.masked] = ()
    return dataclasses.replace(settings, **changes)
