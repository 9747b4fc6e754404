"""Secrets of the operator's files, for credentials that name one.

Called by ``DirectoryTargets``. Every file is read again once a second, in another thread: a
mounted file is replaced without a sign that could be relied on. Nothing here is written anywhere.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from distributary.core.clock import Clock
from distributary.core.deliver.credential import Credential
from distributary.core.deliver.origins import origin_of
from distributary.core.errors import StoreError
from distributary.resource import SecretFile
from distributary.subscriptions.resource import TOKEN_CHARS_MAX, is_secret, is_token

LOOK_S: Final = 1.0
"""Interval of reads, seconds: a change is in force well within five."""

_Key = tuple[str, str]
Texts = Mapping[_Key, str | None]
"""Namespace and name -> the secret; None: the file cannot be read."""


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

    def resolve(self, route: str, namespace: str, credential: Credential) -> Credential:
        """Return *credential* of *route* with the secret that it names, if it names one.

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
        text = self._texts.get(key)
        if text is None:
            raise StoreError(f"the file of the secret {key[1]} cannot be read now")
        if credential.type == "PLAIN" and is_secret(text):
            return dataclasses.replace(credential, secret=text)
        if credential.type == "ACCESSTOKEN" and is_token(text):
            return dataclasses.replace(credential, access_token=text)
        raise StoreError(f"the file of the secret {key[1]} holds no secret for {credential.type}")

    def _read(self) -> Texts:
        return {key: _text(file.file) for key, file in self._files.items()}


def _may_go(file: SecretFile, credential: Credential) -> bool:
    """Whether the operator lets the secret of *file* go to the sink of *credential*."""
    origin = credential.origin
    return origin is not None and any(
        origin_of(sink, origin.user).covers(origin) for sink in file.sinks
    )


def _text(path: str) -> str | None:
    """The content of a file, without the line end after it."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(TOKEN_CHARS_MAX + 3).decode()
    except (OSError, ValueError):  # without the cause: a decoder's message may quote its input
        return None
    return text.removesuffix("\n").removesuffix("\r")
