"""Tokens that deliveries show to destinations with an audience, signed once in 45 minutes.

``DirectoryTargets`` asks for them when it makes a destination, and drops the destinations whose
token is to be renewed: nothing is signed for an event.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from distributary.core.clock import Clock
from distributary.core.deliver.credential import Credential
from distributary.core.environment import SERVICE_CREDENTIALS_VARIABLE
from distributary.core.errors import SettingsError, StoreError
from distributary.core.files import open_bits_of, read_private

if TYPE_CHECKING:
    from distributary.access.issuing import IssuingKey

FILE_BYTES_MAX: Final = 64 * 1024
"""Most bytes of the key file: ten RSA keys of 8,192 bits."""


class IssuingKeys:
    """The private keys in a file, which is read again when it has changed.

    Several threads may call it: at worst each reads the file.

    Args:
        path: The file, which its owner alone may read.
        warn: Takes the reason where the file cannot be used now, once for each reason.
    """

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda _reason: None) -> None:
        self._path = path
        self._warn = warn
        self._told = ""
        folder = os.environ.get(SERVICE_CREDENTIALS_VARIABLE)
        self._open_bits = open_bits_of(path, Path(folder) if folder else None)
        self._seen: tuple[int, ...] = ()
        self._keys: tuple[IssuingKey, ...] = ()

    def read(self) -> tuple["IssuingKey", ...]:
        """The keys, the one that signs first.

        A file that has become unusable does not end what works: the keys read before stay.

        Raises:
            SettingsError: There are none, since the file has never been usable.
        """
        try:
            found = self._path.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_mode)
            if seen != self._seen:
                self._keys = self._parse()
                self._seen, self._told = seen, ""
        except (OSError, SettingsError) as error:
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"issuer_key_file: {self._path}: {error.strerror}"
            if not self._keys:
                raise SettingsError(reason) from None
            if reason != self._told:
                self._told = reason
                self._warn(reason)
        return self._keys

    def _parse(self) -> tuple["IssuingKey", ...]:
        from distributary.access.issuing import read_private_keys  # noqa: PLC0415 - 50 ms of PyJWT

        try:
            pem = read_private(
                self._path,
                FILE_BYTES_MAX,
                what="the issuer's key file",
                remedy="replace the key",
                open_bits=self._open_bits,
            )
        except StoreError as error:
            raise SettingsError(f"issuer_key_file: {error}") from None
        return read_private_keys(pem, "issuer_key_file")


AHEAD_MS: Final = 1_000
"""How far a token may have been made in the future: clocks are corrected by as much all the time.
Sinks refuse a token that was made later, and what is refused so becomes a dead letter."""
RETRY_MS: Final = 10_000
"""Interval of looks at keys that cannot be read, milliseconds: what needs one waits meanwhile."""


class DeliveryTokens:
    """Tokens of deliveries, by who delivers and for whom. For one thread.

    Args:
        clock: For the lives of tokens.
        warn: As for ``IssuingKeys``.
    """

    def __init__(self, clock: Clock, warn: Callable[[str], None]) -> None:
        self._clock = clock
        self._warn = warn
        self._issuer = ""
        self._path = ""
        self._keys: IssuingKeys | None = None
        self._made: dict[tuple[str, str, str], tuple[Credential, int, int]] = {}
        """Each with when it was made, and is to be renewed: wall clock, milliseconds."""
        self._newest_ms = 0
        self._next_ms: int | None = None
        self._failed: set[str] = set()

    def issue_as(self, issuer: str, path: str) -> bool:
        """Sign with the keys at *path* for *issuer*; empty: not at all. True if that is new."""
        if (issuer, path) == (self._issuer, self._path):
            return False
        self._issuer, self._path = issuer, path
        self._keys = IssuingKeys(Path(path), self._warn) if path else None
        self._made.clear()
        self._failed.clear()
        self._next_ms = None
        return True

    @property
    def issuing(self) -> bool:
        """Whether there is a key to sign with."""
        return self._keys is not None

    def credential(self, route: str, subject: str, audience: str) -> Credential:
        """The credential of *subject* for *audience*; the same until it is to be renewed.

        Raises:
            SettingsError: The keys cannot be read.
        """
        assert self._keys is not None
        made = self._made.get((route, subject, audience))
        now_ms = self._clock.wall_ms()
        if made is not None and not _is_due(made, now_ms):
            return made[0]
        try:
            key = self._keys.read()[0]
        except SettingsError:
            self._failed.add(route)
            self._look_by(now_ms + RETRY_MS)
            raise
        from distributary.access.issuing import RENEW_S, TOKEN_S  # noqa: PLC0415 - as above

        now_s = now_ms // 1000
        credential = Credential(
            "ACCESSTOKEN",
            access_token=key.token(self._issuer, subject, audience, now_s),
            access_token_type="Bearer",  # noqa: S106 - the name of a scheme
            access_token_expires_ms=(now_s + TOKEN_S) * 1000,
        )
        renew_ms = (now_s + RENEW_S) * 1000
        self._made[route, subject, audience] = credential, now_ms, renew_ms
        self._newest_ms = max(self._newest_ms, now_ms)
        self._look_by(renew_ms)
        return credential

    def _look_by(self, wall_ms: int) -> None:
        self._next_ms = wall_ms if self._next_ms is None else min(self._next_ms, wall_ms)

    def due(self) -> bool:
        """Whether a token is to be renewed. Cheap."""
        if self._next_ms is None:
            return False
        now_ms = self._clock.wall_ms()
        return now_ms >= self._next_ms or now_ms < self._newest_ms - AHEAD_MS

    def take_due(self) -> set[str]:
        """Forget the tokens to be renewed; returns their routes, and those without a token."""
        if not self.due():
            return set()
        now_ms = self._clock.wall_ms()
        due = [key for key, made in self._made.items() if _is_due(made, now_ms)]
        for key in due:
            del self._made[key]
        self._newest_ms = max((made_ms for _, made_ms, _ in self._made.values()), default=0)
        self._next_ms = min((renew_ms for *_, renew_ms in self._made.values()), default=None)
        failed, self._failed = self._failed, set()
        return failed | {route for route, _subject, _audience in due}

    def forget(self, route: str) -> None:
        """Forget the tokens of *route*, which has ended."""
        self._failed.discard(route)
        for key in [key for key in self._made if key[0] == route]:
            del self._made[key]


def _is_due(made: tuple[Credential, int, int], now_ms: int) -> bool:
    """Whether a token is to be renewed: it is old, or the clock has gone back since."""
    _credential, made_ms, renew_ms = made
    return now_ms >= renew_ms or now_ms < made_ms - AHEAD_MS
