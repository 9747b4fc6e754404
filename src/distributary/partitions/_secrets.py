"""Secrets of the operator's files, for credentials that name one.

Called by ``DirectoryTargets``. Every file is read again once a second, in another thread: a
mounted file is replaced without a sign that could be relied on. Nothing here is written anywhere.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from distributary.core.clock import Clock
from distributary.core.deliver.credential import Credential
from distributary.core.deliver.origins import origin_of
from distributary.core.errors import StoreError
from distributary.resource import (
    TOKEN_CHARS_MAX,
    SecretFile,
    adds_trust,
    fingerprints_in,
    is_secret,
    is_token,
)

LOOK_S: Final = 1.0
"""Interval of reads, seconds: a change is in force well within five."""

CERTIFICATES_BYTES_MAX: Final = 64 * 1024
"""Most bytes of a file of certificates: as many as a subscription may bring."""

_Key = tuple[str, str]


class Content(NamedTuple):
    """What the files of one table hold.

    Attributes:
        secret: None: the file cannot be read.
        certificates: None: there is no such file, or it cannot be read.
    """

    secret: str | None
    certificates: str | None


Texts = Mapping[_Key, Content]
"""By namespace and name."""

_NOTHING: Final = Content(None, None)


class Secrets:
    """The secrets, as of the last ``take``; ``read`` may run in another thread than the rest.

    Args:
        clock: For the interval.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_s = 0.0
        self._files: dict[_Key, SecretFile] = {}
        self._texts: Texts = {}
        self._routes: dict[_Key, set[str]] = {}

    def follow(self, files: Sequence[SecretFile]) -> None:
        """Change the files; reads them."""
        self._files = {(each.namespace, each.name): each for each in files}
        self._texts = self._read()
        self._routes.clear()

    def due(self) -> bool:
        """Whether it is time to read."""
        if not self._files or self._clock.monotonic_s() < self._next_s:
            return False
        self._next_s = self._clock.monotonic_s() + LOOK_S
        return True

    def read(self) -> Texts | None:
        """Read the files; None: no secret has changed. Blocks."""
        found = self._read()
        return None if found == self._texts else found

    def take(self, found: Texts) -> set[str]:
        """Apply what ``read`` returned; returns the routes whose targets it concerns."""
        before, self._texts = self._texts, found
        concerned: set[str] = set()
        for key in {*before, *found}:
            if before.get(key) != found.get(key):
                concerned |= self._routes.pop(key, set())
        return concerned

    def forget(self, route: str) -> None:
        """Forget *route*, which has ended."""
        for routes in self._routes.values():
            routes.discard(route)

    def resolve(
        self, route: str, namespace: str, credential: Credential, ca_certs: str | None
    ) -> Credential:
        """Return *credential* of *route* with the secret that it names, if it names one.

        Args:
            route: Of the subscription.
            namespace: Of the subscription.
            credential: Of the subscription.
            ca_certs: PEM that the subscription wants its sink to be trusted by; None: none.

        Raises:
            StoreError: There is no such secret for this sink now, or it cannot be used.
        """
        if credential.secret_ref is None:
            return credential
        key = namespace, credential.secret_ref
        self._routes.setdefault(key, set()).add(route)
        file, origin = self._files.get(key), credential.origin
        # One answer for both: what other sinks have is nobody's business.
        if file is None or origin is None or not _may_go(file, credential):
            raise StoreError(f"there is no secret {key[1]} for this sink in the namespace {key[0]}")
        text, certificates = self._texts.get(key, _NOTHING)
        given = fingerprints_in(certificates or "") or ()
        if ca_certs is not None and adds_trust(fingerprints_in(ca_certs), given):
            file_of = f"the cacerts_file of the secret {key[1]}"
            raise StoreError(f"the cacerts of the subscription are not in {file_of}")
        if text is None:
            raise StoreError(f"the file of the secret {key[1]} cannot be read now")
        if credential.type == "PLAIN" and is_secret(text):
            return dataclasses.replace(credential, secret=text)
        if credential.type == "ACCESSTOKEN" and is_token(text):
            return dataclasses.replace(credential, access_token=text)
        raise StoreError(f"the file of the secret {key[1]} holds no secret for {credential.type}")

    def _read(self) -> Texts:
        return {
            key: Content(
                _text(file.file, TOKEN_CHARS_MAX + 3),
                file.cacerts_file and _text(file.cacerts_file, CERTIFICATES_BYTES_MAX),
            )
            for key, file in self._files.items()
        }


def _may_go(file: SecretFile, credential: Credential) -> bool:
    """Whether the operator lets the secret of *file* go to the sink of *credential*."""
    origin = credential.origin
    return origin is not None and any(
        origin_of(sink, origin.user).covers(origin) for sink in file.sinks
    )


def _text(path: str, bytes_max: int) -> str | None:
    """The content of a file, cut at *bytes_max*, without the line end after it."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(bytes_max).decode()
    except (OSError, ValueError):  # without the cause: a decoder's message may quote its input
        return None
    return text.removesuffix("\n").removesuffix("\r")
