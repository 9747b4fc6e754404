"""Keys that seal credentials: from the environment, or from a file that only its owner can read.

Called by ``_credentials_sealed``; ``server`` and ``partitions`` pass where keys are. Keys are never
in settings, arguments or Spark's configuration: each process reads them itself.

A source may hold several keys. The first one seals, all of them open. To replace a key, put a new
one before it, and remove it once nothing is sealed by it.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from distributary.core.environment import CREDENTIAL_KEY_VARIABLE, SERVICE_CREDENTIALS_VARIABLE
from distributary.core.errors import StoreError
from distributary.core.files import PRIVATE_MODE, open_bits_of, read_private, write_atomically

KEY_BYTES: Final = 32
"""AES-256."""

KEYS_MAX: Final = 8
"""Most keys of one source: the one that seals, and those that are being replaced."""

KEY_ID_BYTES: Final = 8
"""Bytes of a key's hash that identify it; a collision among a few keys is out of reach."""

_FILE_BYTES_MAX: Final = 4096
"""Larger than any file with ``KEYS_MAX`` keys, to reject a wrong file (a disk image) early."""


class SealingKey(NamedTuple):
    """A key and its id.

    Attributes:
        id: Prefix of everything that the key has sealed; reveals nothing about the key.
        value: 32 bytes.
    """

    id: bytes
    value: bytes

    def __repr__(self) -> str:
        return f"Key({self.id.hex()})"


class Keys:
    """The keys of one server. For one thread at a time.

    Methods raise ``StoreError`` where existing keys cannot be read or used. The message has the
    remedy, and repeats no key.

    Args:
        path: The key file. Made at the first need to seal, unless there is a *text*.
        text: The keys, from ``CREDENTIAL_KEY_VARIABLE``: then the file is ignored.
        service_folder: See ``open_bits_of``.
    """

    def __init__(
        self, path: Path, text: str | None = None, service_folder: Path | None = None
    ) -> None:
        self._path = path
        self._text = text
        self._open_bits = open_bits_of(path, service_folder)
        self._known: tuple[SealingKey, ...] = ()

    @classmethod
    def of(cls, path: Path, environ: Mapping[str, str]) -> "Keys":
        """From ``CREDENTIAL_KEY_VARIABLE`` where *environ* has it, else from the file at *path*."""
        folder = environ.get(SERVICE_CREDENTIALS_VARIABLE)
        return cls(path, environ.get(CREDENTIAL_KEY_VARIABLE), Path(folder) if folder else None)

    @property
    def source(self) -> str:
        """Where the keys are, for people."""
        return str(self._path) if self._text is None else CREDENTIAL_KEY_VARIABLE

    def check(self) -> None:
        """Read the keys, if there are any."""
        if self._text is not None or self._path.exists():
            self._read()

    def text(self) -> str:
        """All keys, as ``CREDENTIAL_KEY_VARIABLE`` has them, for other processes; makes one."""
        self.sealing()
        return ",".join(base64.b64encode(key.value).decode() for key in self._known)

    def sealing(self) -> SealingKey:
        """Return the key to seal with; makes one where there is none.

        Raises:
            StoreError: There is none, and none can be made.
        """
        key = self.current()
        if key is None:
            _make(self._path)
            self._read()
            key = self._known[0]
        return key

    def current(self) -> SealingKey | None:
        """The key that seals; None: none was made yet, or it is lost."""
        if not self._known:
            self.check()
        return self._known[0] if self._known else None

    def opening(self, key_id: bytes) -> SealingKey | None:
        """The key with the id *key_id*; None: there is no such key here."""
        found = self._find(key_id)
        if found is None:
            # Unknown, unless the file has got another key since it was read.
            self.check()
            found = self._find(key_id)
        return found

    def _find(self, key_id: bytes) -> SealingKey | None:
        return next((key for key in self._known if key.id == key_id), None)

    def _read(self) -> None:
        if self._text is not None:
            self._known = _parse(self._text.replace(",", "\n"), CREDENTIAL_KEY_VARIABLE)
        else:
            self._known = _parse(self._from_file(), f"the key file {self._path}")

    def _from_file(self) -> str:
        found = read_private(
            self._path,
            _FILE_BYTES_MAX,
            what="the key file",
            remedy="replace the key and the credentials",
            open_bits=self._open_bits,
        )
        return found.decode("ascii", "replace")


def _parse(text: str, source: str) -> tuple[SealingKey, ...]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not 1 <= len(lines) <= KEYS_MAX:
        raise StoreError(f"{source}: expected 1 to {KEYS_MAX} keys; it has {len(lines)}")
    return tuple(_key(line, number, source) for number, line in enumerate(lines, 1))


def _key(text: str, number: int, source: str) -> SealingKey:
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if len(value) != KEY_BYTES:
        raise StoreError(
            f"{source}: key {number} is not {KEY_BYTES} bytes in Base64;"
            f" make one with: openssl rand -base64 {KEY_BYTES}"
        )
    return SealingKey(
        hashlib.sha256(b"distributary key id\0" + value).digest()[:KEY_ID_BYTES], value
    )


def _make(path: Path) -> None:
    """Write a new key to a new file, atomically, and sync it before use.

    Only the process that holds the data directory's lock makes one.
    """
    key = base64.b64encode(os.urandom(KEY_BYTES)) + b"\n"
    try:
        write_atomically(path, key, mode=PRIVATE_MODE, durable=True)
    except OSError as error:
        raise StoreError(f"the key file {path} cannot be made: {error.strerror}") from error
