"""What an owner on another machine gets with its task: where all is, and the secrets to open it.

It goes from the driver to a worker inside the task, over Spark's authenticated and encrypted
connections, and stays in the memory of processes: in no setting of Spark, no argument, no variable
of the environment, no file and no log line.

Called by ``spark``; ``SessionSettings.places`` opens what it names.
"""

import functools
import os
import secrets
from pathlib import Path

import msgspec

from distributary.core.cluster import SharedPlaces
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import StoreError
from distributary.core.files import PRIVATE_MODE, read_private
from distributary.datadir import DataDir, read_internal_key

KEYS_BYTES_MAX = 64 * 1024
"""Most bytes of a file of keys."""
NO_DRIVER = 1
"""Number that no driver has: earlier versions stopped all owners by it."""
DRIVER_BITS = 62
"""Random bits of the number of a driver: it is a word of a status page."""


class Entrusted(msgspec.Struct, frozen=True, kw_only=True):
    """The places, and secrets of the server.

    Attributes:
        shared: Log and state, with their passwords.
        credential_keys: Keys that open credentials, as ``CREDENTIAL_KEY_VARIABLE`` has them.
        internal_key: Private key by which owners show receivers who they are; empty: none.
        issuer_keys: Private keys that sign the tokens of deliveries, in PEM; empty: none.
        node_authority: Certificate by which nodes of the server are known, in PEM.
        node_chain: Certificate and private key that are shown to them, in PEM; empty: replies and
            events for the server itself reach it on its own machine alone.
        driver: Number of the driver that gives it, which no other one has: owners end where this
            one stops, and not where the one before it does.
    """

    shared: SharedPlaces
    credential_keys: str = ""
    internal_key: bytes = b""
    issuer_keys: bytes = b""
    node_authority: str = ""
    node_chain: str = ""
    driver: int = NO_DRIVER

    @property
    def issuer_key_path(self) -> str:
        """Path at which this process alone finds ``issuer_keys``, in memory; empty: there are none.

        Raises:
            OSError: There is no memory for it.
        """
        return _in_memory(self.issuer_keys) if self.issuer_keys else ""

    @property
    def node_chain_path(self) -> str:
        """Path at which this process alone finds ``node_chain``, in memory.

        Raises:
            OSError: There is no memory for it.
        """
        return _in_memory(self.node_chain.encode())

    def __repr__(self) -> str:
        return f"Entrusted({self.shared!r})"


def entrusted_of(
    shared: SharedPlaces, paths: DataDir, *, key_file: str, issuer_key_file: str
) -> Entrusted:
    """Returns what executors get, with the secrets that this process can read.

    Args:
        shared: Log and state.
        paths: The data directory of this node.
        key_file: Key file of credentials; empty: in the data directory.
        issuer_key_file: File of the private keys that sign tokens; empty: none sign.

    Raises:
        StoreError: A file is there and cannot be read.
    """
    keys = os.environ.get(CREDENTIAL_KEY_VARIABLE, "")
    path = paths.key_file(key_file)
    if not keys and path.exists():
        keys = _read(path, "the key file").decode("ascii", "replace")
    return Entrusted(
        shared=shared,
        credential_keys=",".join(keys.replace(",", " ").split()),
        internal_key=read_internal_key(paths.internal_key) or b"",
        issuer_keys=_read(Path(issuer_key_file), "the issuer's key file")
        if issuer_key_file
        else b"",
        node_authority=_shown(paths.nodes_authority),
        node_chain=_shown(paths.node_chain),
        driver=NO_DRIVER + 1 + secrets.randbits(DRIVER_BITS),
    )


def _shown(path: Path) -> str:
    """What a node shows others; empty: this one is in no cluster."""
    return _read(path, "what this node shows").decode("ascii") if path.exists() else ""


@functools.cache
def _in_memory(content: bytes) -> str:
    """Path of a file that is in memory, and lasts as long as this process."""
    fd = os.memfd_create("keys", os.MFD_CLOEXEC)
    os.fchmod(fd, PRIVATE_MODE)
    os.write(fd, content)
    return f"/proc/self/fd/{fd}"


def _read(path: Path, what: str) -> bytes:
    try:
        return read_private(path, KEYS_BYTES_MAX, what=what, remedy="replace the key")
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
