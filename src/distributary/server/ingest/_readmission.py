"""Whether a sender who was admitted with the head of a request still is when the rest has come.

A body may take half a minute, and a response last for ever. Callers: ``_context``, ``_proxy``.
"""

from distributary.access import Credentials, Gate, Identity
from distributary.core.errors import RequestError
from distributary.net.http1 import Request
from distributary.server.ingest._needs import need_of

_NOTHING = Credentials(b"")
"""What a request shows that came while nothing was asked for."""


def still_admits(gate: Gate, request: Request) -> bool:
    """Whether the sender of *request*, which was admitted, would be admitted now too."""
    try:
        _check(gate, request)
    except RequestError:
        return False
    return True


def check_again(gate: Gate, request: Request) -> None:
    """Check the sender of *request* once more, if anybody's access has changed since.

    Raises:
        RequestError: It would not be admitted now.
    """
    if request.asked_at != gate.generation:
        _check(gate, request)


def sender_now(gate: Gate, request: Request, sender: Identity) -> Identity:
    """Who sends *request*, by what is known now; *sender*: by what was known with its head.

    Raises:
        RequestError: Nobody who is known.
    """
    if request.asked_at == gate.generation:
        return sender
    return _known(gate, request) or sender


def _check(gate: Gate, request: Request) -> None:
    need = need_of(request.method, request.path)
    if not gate.required or not need.identity:
        return
    sender = _known(gate, request)
    if sender is not None and need.permission is not None:
        gate.check(sender, need.permission)


def _known(gate: Gate, request: Request) -> Identity | None:
    """Who sends *request*; None: nobody can tell while the keys of an issuer are being fetched."""
    shown = request.shown
    try:
        return gate.identify(shown if isinstance(shown, Credentials) else _NOTHING)
    except RequestError as error:
        if error.request_code == "unavailable":
            return None
        raise
