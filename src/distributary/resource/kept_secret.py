"""A secret that this server keeps for a namespace: a ``v1/Secret``, and whom it is for.

``knative`` takes it out of objects, ``subscriptions.store`` seals it, ``partitions`` uses it.
"""

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from distributary.core.deliver.origins import origin_of
from distributary.resource.certificates import Fingerprints, fingerprints_in

SINKS: Final = "distributary.dev/sinks"
"""Annotation of a Secret: the sinks that it may go to, URIs apart by spaces or commas. It goes to
their origins, and nowhere without it. A sink that is reached at another address than its URI says
is named by both: see ``unnamed``."""

CA_CERTS: Final = "caCerts"
"""Key of a Secret: certificates in PEM. It goes to no sink that is trusted by others, besides those
of the system and of the operator."""

CA_CERTS_BYTES_MAX: Final = 64 * 1024
"""Most certificates of a Secret, bytes of PEM: as many as a destination may bring. They are read
for each target."""


class KeptSecret(msgspec.Struct, frozen=True, kw_only=True):
    """Values of a Secret. Its ``repr`` has none of them.

    Attributes:
        values: By key.
        sinks: URIs of the sinks that it may go to. Sealed with the values, so that whoever changes
            them must have the values.
    """

    values: dict[str, bytes]
    sinks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"KeptSecret({sorted(self.values)})"

    @property
    def trusted_by(self) -> Fingerprints | None:
        """Its certificates; none where it has none. None: they cannot be read."""
        value = self.values.get(CA_CERTS)
        if value is None:
            return ()
        if len(value) > CA_CERTS_BYTES_MAX or not value.isascii():
            return None
        return fingerprints_in(value.decode("ascii"))


class Vault(Protocol):
    """Seals secrets, each bound to the uid of its object. For one thread at a time.

    Methods raise ``StoreError``: there is no key, or it does not open the secret.
    """

    def seal_kept(self, uid: str, secret: KeptSecret) -> bytes:
        """Seal *secret*."""

    def open_kept(self, uid: str, sealed: bytes) -> KeptSecret:
        """Open what ``seal_kept`` made."""

    def outdated(self, sealed: bytes) -> bool:
        """Whether it should be sealed anew, with a newer key."""


def sinks_in(text: object) -> tuple[str, ...]:
    """The URIs in a value of ``SINKS``; none where it is no text."""
    return tuple(text.replace(",", " ").split()) if isinstance(text, str) else ()


def unnamed(sinks: Iterable[str], uri: str, dial: str | None) -> str | None:
    """The first place of a sink that *sinks* do not name, as a URI; None: a Secret may go there.

    Both count, what the URI says and what is dialled: whoever may write a Service chooses where it
    is dialled, and may not have the Secret.

    Args:
        sinks: Those of a Secret.
        uri: Of the sink.
        dial: ``host:port`` to connect to instead of the URI's; None: the URI's.
    """
    named = [origin_of(each) for each in sinks]
    places = [uri] if dial is None else [uri, f"{uri.partition(':')[0]}://{dial}"]
    for place in places:
        if not any(each.covers(origin_of(place)) for each in named):
            return place
    return None
