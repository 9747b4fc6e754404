"""Every error this package raises, and the catalogue of their stable codes.

The tree::

    DistributaryError
    ├── EventError          the sender's bytes are not an event (all faults at once)
    ├── ResourceError       a resource's spec is wrong (all faults at once, each with a path)
    ├── ConflictError       the resource exists already, or was changed meanwhile
    ├── NotFoundError       there is no such resource
    ├── RequestError        an HTTP request breaks a limit or a rule of HTTP itself
    ├── LogError            the log cannot do what was asked
    │   ├── LogUnavailableError   not now: full disk, failed fsync, closed; nothing appended
    │   ├── RecordTooLargeError   never: no record holds it; nothing was appended
    │   ├── LogDamagedError       bytes on the medium are not what was written
    │   ├── RecordsMissingError   a read needs records that nobody has any more
    │   ├── LogLockedError        another process owns the folder
    │   └── LogFormatError        written by a newer version
    ├── StoreError          the resource or delivery store cannot do what was asked
    │   ├── FencedError           another process has taken over; nothing was written
    │   ├── StoreAwayError        in a moment: the database is away
    │   └── StoreTrimmedError     never: the requested history was trimmed
    ├── TransportError      no answer came from a sink (never an invented status code)
    ├── ProtocolUnavailableError  the protocol of another package cannot be used
    └── SettingsError       settings that cannot be used; the message has the cure

Delivery failure is a value, not an exception: ``policy.classify`` turns a response or a
``TransportError`` into a verdict. Bugs are assertions and are not caught.

Callers: all packages. Imports nothing of ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, and where it is.

    Attributes:
        path: Where: a JSON path from the root (``$.filters[0].exact``), a header name
            (``ce-id``), or ``$`` for the whole.
        code: A stable short name of the kind of fault (``missing``, ``empty``, ``type``...).
        message: A sentence for people, with what is expected. Never holds a secret.
    """

    path: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A stable code with its HTTP status and title.

    Attributes:
        status: HTTP status of a problem details body with this code (RFC 9457).
        title: A sentence that never changes for the code.
    """

    status: int
    title: str


CATALOGUE: dict[str, CatalogueEntry] = {
    "invalid": CatalogueEntry(400, "The request holds invalid information"),
    "malformed-event": CatalogueEntry(400, "The request does not hold a CloudEvent"),
    "hop-limit": CatalogueEntry(400, "The event has made all its passes through Brokers"),
    "bad-request": CatalogueEntry(400, "The request breaks a rule of HTTP"),
    "unauthenticated": CatalogueEntry(401, "The request does not show who sends it"),
    "invalid-credentials": CatalogueEntry(401, "The server does not accept what the request shows"),
    "forbidden": CatalogueEntry(403, "The sender may not do this"),
    "cross-origin": CatalogueEntry(403, "The request comes from a web page of another origin"),
    "notfound": CatalogueEntry(404, "There is no such resource"),
    "method-not-allowed": CatalogueEntry(405, "The resource does not know this method"),
    "request-timeout": CatalogueEntry(408, "The request took too long to arrive"),
    "conflict": CatalogueEntry(412, "The resource is in another state"),
    "content-too-large": CatalogueEntry(413, "The body is larger than the limit"),
    "uri-too-long": CatalogueEntry(414, "The request line is longer than the limit"),
    "unsupported-media-type": CatalogueEntry(415, "The content type is not supported"),
    "misdirected": CatalogueEntry(421, "The request is for a host that this server is not"),
    "quota-exceeded": CatalogueEntry(429, "The namespace has used up a quota"),
    "headers-too-large": CatalogueEntry(431, "The header fields are larger than the limit"),
    "internal": CatalogueEntry(500, "The server failed"),
    "unavailable": CatalogueEntry(503, "The server cannot take this now; try again later"),
    "log-unavailable": CatalogueEntry(503, "The log cannot take events now; try again later"),
    "log-damaged": CatalogueEntry(500, "The log is damaged"),
    "log-incomplete": CatalogueEntry(500, "Records of the log or of its archive are missing"),
    "log-locked": CatalogueEntry(500, "The data directory is used by another process"),
    "log-format": CatalogueEntry(500, "The data directory was written by a newer version"),
    "store-failed": CatalogueEntry(503, "The store cannot do this now"),
    "no-answer": CatalogueEntry(502, "No answer came from the sink"),
    "protocol-unavailable": CatalogueEntry(500, "A delivery protocol of a package cannot be used"),
    "settings": CatalogueEntry(500, "The settings cannot be used"),
}
"""Code -> HTTP status and title: problem bodies, logs and docs/reference/errors.md use it."""


class DistributaryError(Exception):
    """Base of every error of this package; ``code`` is a key of ``CATALOGUE``."""

    code: ClassVar[str] = "internal"


class FaultsError(DistributaryError):
    """An error that carries all faults found, not only the first."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        assert self.faults
        super().__init__("; ".join(f"{f.path}: {f.message}" for f in self.faults))


class EventError(FaultsError):
    """Bytes that are not an event. The sender must change them; a retry is useless."""

    code = "malformed-event"


class ResourceError(FaultsError):
    """A resource that breaks its schema or a rule; nothing was stored."""

    code = "invalid"


class ConflictError(DistributaryError):
    """The resource exists already, or has changed since the caller read it. Read again."""

    code = "conflict"


class NotFoundError(DistributaryError):
    """There is no resource of this name."""

    code = "notfound"


class RequestError(DistributaryError):
    """An HTTP request that breaks a limit or a rule of HTTP.

    Args:
        code: A key of ``CATALOGUE``; the response has its status.
        message: What was wrong, and the limit in force.
    """

    def __init__(self, code: str, message: str) -> None:
        assert code in CATALOGUE
        self.request_code = code
        super().__init__(message)


class LogError(DistributaryError):
    """The log cannot do what was requested."""

    code = "log-unavailable"


class LogUnavailableError(LogError):
    """The log accepts nothing now (disk full, fsync failed, closed). Nothing was promised."""


class RecordTooLargeError(LogError):
    """The body is larger than a record may be; a retry does not help."""

    code = "content-too-large"


class LogDamagedError(LogError):
    """Bytes on the medium are not what was written; the damage is confined and reported."""

    code = "log-damaged"


class RecordsMissingError(LogError):
    """Records that a read needs are gone: from the log (retention, a restore), or the archive."""

    code = "log-incomplete"


class LogLockedError(LogError):
    """Another process holds the lock. Stop it, or choose another data directory."""

    code = "log-locked"


class LogFormatError(LogError):
    """The folder was written by a newer version. Upgrade, or choose another directory."""

    code = "log-format"


class StoreError(DistributaryError):
    """A store (resources, retries, dead letters) cannot do what was requested."""

    code = "store-failed"


class FencedError(StoreError):
    """Another process has taken over; nothing was written, and this one must stop."""


class StoreAwayError(StoreError):
    """The database cannot be reached, or takes nothing for now; the same may succeed in a moment.

    Whether a transaction that was being committed counts is unknown.
    """


class StoreTrimmedError(StoreError):
    """The store has trimmed the requested history; a retry does not help."""


class TransportError(DistributaryError):
    """No answer came from a sink: refused, reset, timed out, TLS, DNS, blocked address.

    Args:
        reason: A stable short name: ``refused``, ``reset``, ``timeout``, ``dns``, ``tls``,
            ``blocked-address``, ``protocol``, ``closed``; if nothing was sent,
            ``credential-expired``, ``unreadable-settings``; if there was no memory for the event
            in a response, ``replies-crowded``.
        message: A sentence for people; never holds a secret.
        retryable: False if no later attempt can succeed (a blocked address).
    """

    code = "no-answer"

    def __init__(self, reason: str, message: str, *, retryable: bool = True) -> None:
        self.reason = reason
        self.retryable = retryable
        super().__init__(message)


class ProtocolUnavailableError(DistributaryError):
    """A delivery protocol declared by another package that cannot be used; the others can.

    Args:
        package: Name of the package.
        entry: Its entry point.
        reason: What failed.
    """

    code = "protocol-unavailable"

    def __init__(self, package: str, entry: str, reason: str) -> None:
        super().__init__(f"the package {package} cannot be used ({entry}): {reason}")


class SettingsError(DistributaryError):
    """Settings that cannot be used. The message has the cure."""

    code = "settings"


_SEE_THE_LOG: Final = "log or store of the server cannot do this now; the server's log says why"


def client_text(error: DistributaryError) -> str:
    """What a client is told of *error*; its own text is for the server's log.

    Where log or store fail, that text names hosts, users and folders: no business of a tenant, let
    alone of a stranger.
    """
    hidden = isinstance(error, StoreError | LogError) and CATALOGUE[error.code].status >= 500
    return _SEE_THE_LOG if hidden else str(error)
