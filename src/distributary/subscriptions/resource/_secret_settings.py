"""Secret settings: recognizes them by name, and masks them in responses.

Called by ``_parse`` (takes the values out), by the store (seals them, and resolves masks) and by
the data plane (puts them back). The realized object never holds one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import msgspec

from distributary.core.deliver.broker_settings import Scalar
from distributary.core.deliver.origins import UriOrigin, origin_of
from distributary.core.deliver.signing import SigningKeys
from distributary.core.protocol import protocols
from distributary.core.shown import is_secret
from distributary.resource.certificates import Fingerprints, adds_trust, fingerprints_in
from distributary.resource.faults import Faults, member

CLIENT_CERTIFICATE: Final = "clientcertificate"
"""Member of ``protocolsettings`` whose key is secret."""

_SIGNED: Final = b'"signature":'

MASK: Final = "***"
"""Replaces secret values in responses. In a request it keeps the stored value."""


class Party(NamedTuple):
    """Whom a secret is for: the sink that it was given for.

    Attributes:
        origin: Of the sink.
        trusted_by: Fingerprints of the certificates that it is trusted by, besides the system's.
            None: unknown, or of no concern.
    """

    origin: UriOrigin
    trusted_by: Fingerprints | None = None


@dataclass(frozen=True, slots=True)
class SecretValues:
    """The secret settings of one sink.

    Attributes:
        origin: Of the sink that they are for.
        values: Name -> value; None: the client sent the mask, so the stored value is kept.
        trusted_by: As in ``Party``.
    """

    origin: UriOrigin
    values: dict[str, Scalar | None] = field(repr=False)
    trusted_by: Fingerprints | None = None

    @property
    def party(self) -> Party:
        """Whom they are for."""
        return Party(self.origin, self.trusted_by)

    @property
    def complete(self) -> bool:
        """False where a value to be kept is missing here."""
        return None not in self.values.values()

    def find(self, name: str) -> Scalar | None:
        """The value under *name*; names of header fields are compared without case."""
        if name in self.values:
            return self.values[name]
        lower = name.lower()
        return next((each for key, each in self.values.items() if key.lower() == lower), None)


@dataclass(frozen=True, slots=True)
class SecretSettings:
    """The secret settings of a subscription.

    Attributes:
        sink: Those for its sink; None: there are none.
        dead_letter: Those for a dead letter sink with settings of its own; None: there are none.
        signing: Keys that sign deliveries; None: they are not signed. The store makes them.
        certificate: Private key of the client certificate; None: there is none.
        dead_letter_certificate: That of a dead letter sink with settings of its own.
    """

    sink: SecretValues | None = None
    dead_letter: SecretValues | None = None
    signing: SigningKeys | None = None
    certificate: SecretValues | None = None
    dead_letter_certificate: SecretValues | None = None

    @property
    def complete(self) -> bool:
        """False where a value to be kept is missing here."""
        return all(each.complete for each in self._values)

    @property
    def _values(self) -> list[SecretValues]:
        places = self.sink, self.dead_letter, self.certificate, self.dead_letter_certificate
        return [each for each in places if each is not None]

    def __bool__(self) -> bool:
        return self.signing is not None or bool(self._values)


class _Place(NamedTuple):
    """A map of a subscription object that may hold secret settings.

    Attributes:
        which: Attribute of ``SecretSettings``.
        path: JSON path of the map.
        sink: URI that they are for.
        entries: The map.
        settings: The ``protocolsettings`` that it is in.
    """

    which: str
    path: str
    sink: Any
    entries: dict[str, Any]
    settings: Mapping[str, Any]

    @property
    def is_sent(self) -> bool:
        """Whether the sink is sent the values; a private key stays here."""
        return self.which in {"sink", "dead_letter"}


def refuse_masks(faults: Faults, body: Mapping[str, Any]) -> None:
    """Note each mask in the proposal *body*, for which nothing is stored."""
    for place in _places(body):
        for name, value in place.entries.items():
            if value == MASK and is_secret(name):
                no_value_kept(faults, member(place.path, name))


def no_value_kept(faults: Faults, path: str, *, elsewhere: str | None = None) -> None:
    """Note a mask at *path* without a stored value; *elsewhere*: whose the stored one is."""
    why = (
        "no value is stored under this name"
        if elsewhere is None
        else f"the stored value was given for {elsewhere}"
    )
    faults.add(path, "missing", f"{MASK} keeps a stored value, and {why}: send the value again")


def take_out(realized: dict[str, Any], *, stored: bool = False) -> SecretSettings:
    """Take the secret settings out of *realized* and put masks in their places.

    Args:
        realized: A realized subscription object; is changed.
        stored: It comes from a store without masks: every entry is a value.
    """
    found: dict[str, SecretValues] = {}
    for place in _places(realized):
        values: dict[str, Scalar | None] = {}
        for name, value in place.entries.items():
            if is_secret(name):
                values[name] = None if value == MASK and not stored else value
                place.entries[name] = MASK
        if values:
            origin, trusted_by = _party(realized, place)
            found[place.which] = SecretValues(origin, values, trusted_by)
    return _settings_of(found)


def _settings_of(found: Mapping[str, SecretValues | None]) -> SecretSettings:
    """The settings with the values of each place."""
    return SecretSettings(
        found.get("sink"),
        found.get("dead_letter"),
        certificate=found.get("certificate"),
        dead_letter_certificate=found.get("dead_letter_certificate"),
    )


def sink_origin(subscription: Mapping[str, Any]) -> UriOrigin:
    """The origin of the sink of *subscription* (realized), with the account at a broker."""
    credential = subscription.get("sinkCredential", {})
    user = credential.get("identifier") if subscription["protocol"] != "HTTP" else None
    return origin_of(subscription["sink"], user)


def sink_party(subscription: Mapping[str, Any]) -> Party:
    """Whom the credential of *subscription* (realized) is for."""
    return Party(sink_origin(subscription), _trusted_by(subscription["protocolsettings"]))


def another(held: Party, now: Party) -> str | None:
    """Whose a secret is that is for *held*, for people; None: it may go to *now*."""
    if not held.origin.covers(now.origin):
        return "another origin of the sink (scheme, host, port)"
    if held.trusted_by is not None and adds_trust(now.trusted_by, held.trusted_by):
        return "a sink that is trusted by other certificates (cacerts)"
    return None


def with_trust(stored: SecretSettings, realized: Mapping[str, Any]) -> SecretSettings:
    """*stored* of the subscription *realized*, with what its sinks are trusted by.

    A version that did not look at certificates has sealed none.
    """
    found: dict[str, Any] = {}
    for place in _places(realized):
        held: SecretValues | None = getattr(stored, place.which)
        if held is not None and held.trusted_by is None:
            found[place.which] = replace(held, trusted_by=_party(realized, place).trusted_by)
    return replace(stored, **found)


def kept(
    faults: Faults,
    realized: Mapping[str, Any],
    new: SecretSettings,
    stored: SecretSettings,
) -> SecretSettings:
    """*new* with masks resolved from *stored*; each mask without a value is a fault."""
    paths = {place.which: place.path for place in _places(realized)}
    found: dict[str, SecretValues | None] = {}
    for which, path in paths.items():
        wanted: SecretValues | None = getattr(new, which)
        if wanted is None:
            continue
        held: SecretValues | None = getattr(stored, which)
        elsewhere = None if held is None else another(held.party, wanted.party)
        values = dict(wanted.values)
        for name in [name for name, value in values.items() if value is None]:
            values[name] = held.find(name) if held is not None else None
            if values[name] is None:
                no_value_kept(faults, member(path, name))
            elif elsewhere is not None:
                no_value_kept(faults, member(path, name), elsewhere=elsewhere)
        found[which] = replace(wanted, values=values)
    return _settings_of(found)


def has_secrets(realized: bytes) -> bool:
    """Whether sending as *realized* needs secret settings or keys that sign."""
    if MASK.encode() not in realized and _SIGNED not in realized:
        return False  # most have none, and are not decoded
    value = msgspec.json.decode(realized)
    return _is_signed(value) or bool(take_out(value))


def put_back(realized: bytes, secrets: SecretSettings) -> bytes:
    """Replace the masks in *realized* by the values of *secrets*.

    Raises:
        ValueError: A value is missing, or belongs to another origin than the sink that would get
            it now. Send nothing then.
    """
    value = msgspec.json.decode(realized)
    for place in _places(value):
        held: SecretValues | None = getattr(secrets, place.which)
        for name in [name for name in place.entries if is_secret(name)]:
            found = held.find(name) if held is not None else None
            if held is None or found is None:
                raise ValueError("a stored secret setting is missing")
            elsewhere = another(held.party, _party(value, place))
            if elsewhere is not None:
                raise ValueError(f"a stored secret setting is for {elsewhere}")
            place.entries[name] = found
    if _is_signed(value):
        if secrets.signing is None:
            raise ValueError("the stored key that signs is missing")
        if not secrets.signing.origin.covers(sink_origin(value)):
            raise ValueError("the stored key that signs is for another sink")
    return msgspec.json.encode(value)


def _is_signed(realized: Mapping[str, Any]) -> bool:
    return "signature" in realized["protocolsettings"]


def _party(subscription: Mapping[str, Any], place: _Place) -> Party:
    # A dead letter sink never gets the subscription's credential, so no user is part of its origin.
    own = place.which in {"sink", "certificate"}
    origin = sink_origin(subscription) if own else origin_of(place.sink)
    return Party(origin, _trusted_by(place.settings) if place.is_sent else None)


def _trusted_by(settings: Mapping[str, Any]) -> Fingerprints:
    text = settings.get("cacerts")
    return () if text is None else fingerprints_in(text) or (text,)  # compared as it stands


def _places(subscription: Mapping[str, Any]) -> Iterator[_Place]:
    """Each map of *subscription*, realized or any proposal, that may hold secret settings."""
    yield from _place("sink", "$", subscription, subscription.get("protocol"))
    settings = subscription.get("protocolsettings")
    delivery = settings.get("delivery") if isinstance(settings, Mapping) else None
    target = delivery.get("deadLetterSink") if isinstance(delivery, Mapping) else None
    if isinstance(target, Mapping):
        path = "$.protocolsettings.delivery.deadLetterSink"
        protocol = target.get("protocol", subscription.get("protocol"))
        yield from _place("dead_letter", path, target, protocol)


def _place(which: str, path: str, holder: Mapping[str, Any], protocol: object) -> Iterator[_Place]:
    row = protocols().get(protocol) if isinstance(protocol, str) else None
    name = None if row is None else row.masked
    settings = holder.get("protocolsettings")
    if not isinstance(settings, Mapping):
        return
    certificate = "certificate" if which == "sink" else f"{which}_certificate"
    for of, member_name in ((which, name), (certificate, CLIENT_CERTIFICATE)):
        entries = settings.get(member_name) if member_name is not None else None
        if isinstance(entries, dict):
            where = f"{path}.protocolsettings.{member_name}"
            yield _Place(of, where, holder.get("sink"), entries, settings)
