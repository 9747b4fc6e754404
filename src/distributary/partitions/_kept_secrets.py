"""Secrets that the server keeps, for Triggers and messaging Subscriptions that name them.

Called by ``DirectoryTargets``. Values are opened when a target is made, and are in no other place.

Source:
    Standard Webhooks 1.0: ``whsec_`` and ``whsk_``.
"""

import base64
import binascii
import dataclasses
from collections.abc import Mapping
from typing import Final, NamedTuple

import sqlalchemy as sa

from distributary.core import database
from distributary.core.deliver.credential import Credential
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.origins import UriOrigin, origin_of
from distributary.core.deliver.signing import SignatureScheme, SigningKey, SigningKeys
from distributary.core.engine import RouteTarget
from distributary.core.errors import StoreError
from distributary.resource import KeptSecret, unnamed
from distributary.routes import tables as _tables
from distributary.routes.settings import RouteSettings
from distributary.subscriptions.resource import is_secret, is_token
from distributary.subscriptions.store import Sealer

_k: Final = _tables.kept_secret
_c: Final = _tables.kept_secret_counter

_SCHEMES: Final[Mapping[str, SignatureScheme]] = {"whsec_": "v1", "whsk_": "v1a"}
_SEED_BYTES: Final = 32
_SECRET_BYTES_MIN: Final = 24
_SECRET_BYTES_MAX: Final = 64
"""Sizes of a ``v1`` secret by the specification."""

_Name = tuple[str, str]


class KeptRow(NamedTuple):
    """The values of one Secret.

    Attributes:
        uid: Of the object.
        sealed: For ``Sealer.open_kept``.
    """

    uid: str
    sealed: bytes


class KeptNews(NamedTuple):
    """Changes that were read and not yet applied.

    Attributes:
        seq: Number of the newest change.
        changed: By namespace and name.
        there: All that exist.
    """

    seq: int
    changed: Mapping[_Name, KeptRow]
    there: frozenset[_Name]


class KeptSecrets:
    """The secrets in the store at *url*, as of the last ``take``.

    ``read`` may run in another thread than the rest.

    Args:
        url: Of the store.
        sealer: Opens them.
    """

    def __init__(self, url: sa.URL, sealer: Sealer) -> None:
        self._engine = database.open_reader(url, _tables.STORE)
        self._sealer = sealer
        self._seq = 0
        self._rows: dict[_Name, KeptRow] = {}
        self._routes: dict[_Name, set[str]] = {}

    def read(self) -> KeptNews | None:
        """Read changes; None: there are none. Blocks.

        Raises:
            StoreError: The store cannot be read now.
        """
        with database.reading(self._engine) as connection:
            seq = connection.execute(sa.select(_c.c.seq)).scalar() or 0
            if seq == self._seq:
                return None
            rows = connection.execute(
                sa.select(_k.c.namespace, _k.c.name, _k.c.uid, _k.c.sealed).where(
                    _k.c.seq > self._seq
                )
            )
            changed = {(namespace, name): KeptRow(*rest) for namespace, name, *rest in rows}
            names = connection.execute(sa.select(_k.c.namespace, _k.c.name))
            return KeptNews(seq, changed, frozenset((one.namespace, one.name) for one in names))

    def take(self, news: KeptNews) -> set[str]:
        """Apply what ``read`` returned; returns the routes whose targets it concerns."""
        gone = self._rows.keys() - news.there
        for name in gone:
            del self._rows[name]
        self._rows |= news.changed
        self._seq = news.seq
        concerned: set[str] = set()
        for name in {*gone, *news.changed}:
            concerned |= self._routes.pop(name, set())
        return concerned

    def forget(self, route: str) -> None:
        """Forget *route*, which has ended."""
        for routes in self._routes.values():
            routes.discard(route)

    def resolve(self, route: str, settings: RouteSettings, target: RouteTarget) -> RouteTarget:
        """Return *target* of *route* with what the Secrets that *settings* name hold.

        Where one is missing, or not for the sink, what is for the sink waits.
        """
        namespace, sink = settings.namespace, target.sink
        if namespace is None or sink.own or not (settings.credential or settings.signature):
            return target
        try:
            origin = origin_of(sink.uri)
            if settings.credential:
                secret = self._open(route, (namespace, settings.credential), target.sink)
                credential = _credential(settings.credential, secret, origin)
                sink = dataclasses.replace(sink, credential=credential)
            if settings.signature:
                secret = self._open(route, (namespace, settings.signature), target.sink)
                signing = SigningKeys(origin, _signing(settings.signature, secret))
                sink = dataclasses.replace(sink, signing=signing)
        except StoreError as error:
            sink = dataclasses.replace(target.sink, refused=target.sink.refused or str(error))
        return dataclasses.replace(target, sink=sink)

    def _open(self, route: str, name: _Name, sink: Destination) -> KeptSecret:
        self._routes.setdefault(name, set()).add(route)
        row = self._rows.get(name)
        secret = None if row is None else self._sealer.open_kept(row.uid, row.sealed)
        # One answer for both: what other sinks have is nobody's business.
        if secret is None or unnamed(secret.sinks, sink.uri, sink.dial) is not None:
            raise StoreError(
                f"there is no Secret {name[1]} for this sink in the namespace {name[0]}"
            )
        return secret

    def close(self) -> None:
        """Close the store."""
        self._engine.dispose()


def _credential(name: str, secret: KeptSecret, origin: UriOrigin) -> Credential:
    values = {key: _text(value) for key, value in secret.values.items()}
    user, password, token = (values.get(key) for key in ("username", "password", "token"))
    if token is not None and is_token(token):
        kind = "Bearer"
        return Credential("ACCESSTOKEN", access_token=token, access_token_type=kind, origin=origin)
    if user is not None and password is not None and is_secret(password) and ":" not in user:
        return Credential("PLAIN", identifier=user, secret=password, origin=origin)
    raise StoreError(f"the Secret {name} has neither username and password, nor token")


def _signing(name: str, secret: KeptSecret) -> tuple[SigningKey, ...]:
    """Its keys, the newest first."""
    texts = (secret.values.get(key) for key in ("secret", "previous"))
    found = tuple(_signing_key(name, _text(each)) for each in texts if each)
    if not found:
        raise StoreError(f"the Secret {name} has no key secret")
    return found


def _signing_key(name: str, text: str | None) -> SigningKey:
    for prefix, scheme in _SCHEMES.items():
        if text is None or not text.startswith(prefix):
            continue
        try:
            value = base64.b64decode(text.removeprefix(prefix), validate=True)
        except (binascii.Error, ValueError):  # without the cause, which may quote
            value = b""
        fits = _SECRET_BYTES_MIN <= len(value) <= _SECRET_BYTES_MAX
        if fits and (scheme == "v1" or len(value) == _SEED_BYTES):
            return SigningKey(scheme, value, 0)
    raise StoreError(f"the Secret {name} holds no whsec_ or whsk_ key of Standard Webhooks")


def _text(value: bytes) -> str | None:
    """*value* as text, without the line end after it; None: it is none."""
    try:
        return value.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        return None
