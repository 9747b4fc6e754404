"""Parses ``-ERR`` lines and replies of JetStream into answers.

Called by ``_connection`` and ``_session``. Pure. Codes are those of ``protocols.nats.answers``.
"""

import re
from typing import Final

import msgspec

from distributary.core.policy import Acknowledgement
from distributary.core.policy.acknowledgements import TEXT_CHARS_MAX

PROTOCOL: Final = "NATS"

STORED: Final = Acknowledgement(PROTOCOL, "stored")
DUPLICATE: Final = Acknowledgement(PROTOCOL, "duplicate")
FLUSHED: Final = Acknowledgement(PROTOCOL, "flushed")
NO_STREAM: Final = Acknowledgement(PROTOCOL, "no-stream", "No stream holds the subject")
NO_RESPONDERS: Final = Acknowledgement(PROTOCOL, "no-responders", "No stream holds the subject")
NO_HEADERS: Final = Acknowledgement(
    PROTOCOL, "message-headers-not-supported", "The server takes no headers"
)
BAD_SUBJECT: Final = Acknowledgement(PROTOCOL, "invalid-publish-subject", "No subject to send to")

JETSTREAM_NOT_ENABLED: Final = frozenset({10039, 10076})
"""Error codes of the API if JetStream is not enabled for this account, or at all."""

SUBSCRIPTION_DENIED: Final = "permissions-violation-for-subscription"

_STATUS: Final = re.compile(rb"NATS/1\.0[ \t]+(\d{3})")
_VIOLATION: Final = re.compile(
    r"permissions violation for (publish|subscription)(?: with reply of)? (?:to )?\"([^\"]*)\"",
    re.IGNORECASE,
)
_NOT_WORD: Final = re.compile(r"[^a-z0-9]+")

_CODE_CHARS_MAX: Final = 64
"""Characters of a code from a server's text: codes are part of logs and metrics."""


class _Failure(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _PubAck(msgspec.Struct):
    stream: str = ""
    duplicate: bool = False
    error: _Failure | None = None


class _Streams(msgspec.Struct):
    streams: list[str] | None = None
    error: _Failure | None = None


_puback = msgspec.json.Decoder(_PubAck)
_streams = msgspec.json.Decoder(_Streams)


def of_reply(headers: bytes, payload: bytes) -> Acknowledgement:
    """Parse the reply to a publish: JetStream's PubAck, its error, or the server's 503."""
    if headers and (status := _STATUS.match(headers)):
        if status[1] == b"503":
            return NO_RESPONDERS
        return Acknowledgement(PROTOCOL, "other", f"Status {status[1].decode()}")
    try:
        reply = _puback.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Acknowledgement(PROTOCOL, "no-puback", "The reply is no PubAck")
    if reply.error is not None:
        return _failure(reply.error)
    if not reply.stream:
        return Acknowledgement(PROTOCOL, "no-puback", "The reply names no stream")
    return DUPLICATE if reply.duplicate else STORED


def of_look_up(headers: bytes, payload: bytes) -> list[str] | Acknowledgement:
    """Parse the reply to ``STREAM.NAMES``: the streams that hold the subject, or an error.

    Without JetStream (503, or an error code for it) the list is empty.
    """
    if headers and (status := _STATUS.match(headers)):
        if status[1] == b"503":
            return []
        return Acknowledgement(PROTOCOL, "other", f"Status {status[1].decode()}")
    try:
        reply = _streams.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Acknowledgement(PROTOCOL, "other", "JetStream cannot be understood")
    if reply.error is None:
        return reply.streams or []
    if reply.error.err_code in JETSTREAM_NOT_ENABLED:
        return []
    return _failure(reply.error)


def of_error(text: str) -> Acknowledgement:
    """Parse the text of an ``-ERR`` line, which becomes the code."""
    said = text.removeprefix("nats: ").strip().strip("'")
    violation = _VIOLATION.match(said)
    if violation is not None:
        return Acknowledgement(
            PROTOCOL, f"permissions-violation-for-{violation[1].lower()}", said[:TEXT_CHARS_MAX]
        )
    code = _NOT_WORD.sub("-", said.lower()).strip("-")
    return Acknowledgement(PROTOCOL, code[:_CODE_CHARS_MAX] or "other", said[:TEXT_CHARS_MAX])


def too_large(bytes_max: int) -> Acknowledgement:
    """Returns the answer that a server would give, ending the connection."""
    text = f"The message is larger than max_payload, {bytes_max} bytes"
    return Acknowledgement(PROTOCOL, "maximum-payload-violation", text)


def denied_subject(text: str) -> str:
    """Returns the subject that a permissions violation names; empty: none."""
    violation = _VIOLATION.search(text)
    return "" if violation is None else violation[2]


def _failure(failure: _Failure) -> Acknowledgement:
    return Acknowledgement(PROTOCOL, str(failure.err_code), failure.description[:TEXT_CHARS_MAX])
