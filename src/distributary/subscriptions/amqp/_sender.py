"""Who is at the other end of a connection, and whether they may."""

from collections.abc import Callable
from typing import Final

from distributary.access import (
    ANYBODY,
    Change,
    Credentials,
    Gate,
    Identity,
    PeerCertificate,
    Permission,
    Verb,
)
from distributary.core.errors import RequestError
from distributary.protocols.amqp.engine import ClientLogin
from distributary.subscriptions.http.operations import OperationName

_READING: Final = frozenset((OperationName.RETRIEVE, OperationName.QUERY))


Audit = Callable[[Change], None]
"""Records a change."""


class Sender:
    """The client of one connection; decides about its login (``Logins``).

    Args:
        gate: Knows who may do what.
        certificate: Certificate of the connection; None: the client showed none.
    """

    def __init__(self, gate: Gate, certificate: PeerCertificate | None = None) -> None:
        self._gate = gate
        self._shown = Credentials(b"", certificate)

    @property
    def required(self) -> bool:
        """Whether it must log in."""
        return self._gate.required

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """A key is a password of ``PLAIN``; ``OAUTHBEARER`` takes keys and tokens."""
        external = () if self._shown.certificate is None else ("EXTERNAL",)
        return (*external, "OAUTHBEARER", "PLAIN")

    def accept(self, login: ClientLogin) -> bool:
        """Whether *login* is valid; whoever it shows is the sender from now on."""
        shown = self._shown
        if login.mechanism != "EXTERNAL":
            shown = Credentials(b"Bearer " + login.secret.encode(), None)
        try:
            self._gate.identify(shown)
        except RequestError:  # not valid, or the keys of its issuer are being fetched
            return False
        self._shown = shown
        return True

    def identify(self) -> Identity:
        """Who it is now: a key may have been revoked since the login.

        Raises:
            UnauthenticatedError: It is nobody any more.
        """
        return self._gate.identify(self._shown) if self.required else ANYBODY

    def check(self, identity: Identity, operation: OperationName, namespace: str) -> None:
        """Check that *identity* may do *operation* in *namespace*.

        Raises:
            ForbiddenError: It may not.
        """
        self._gate.check(identity, permission_of(operation, namespace))


def changes(operation: OperationName | None) -> bool:
    """Whether *operation* changes something."""
    return operation is not None and operation not in _READING


def permission_of(operation: OperationName, namespace: str) -> Permission:
    """What *operation* needs in *namespace*; the table in the documentation is drawn from this."""
    return Permission(Verb.READ if operation in _READING else Verb.WRITE, namespace)
