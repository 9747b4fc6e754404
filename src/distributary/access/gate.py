"""The gate: who asks, and whether they may. One in each process that answers clients."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from distributary.access import internal, keys
from distributary.access.identity import ANYBODY, Identity, IdentityKind, Permission, Verb
from distributary.access.policies import Policies, PolicyRecord
from distributary.access.presented import Credentials, holder_of
from distributary.access.refusals import ForbiddenError, UnauthenticatedError
from distributary.access.snapshot import AccessSnapshot
from distributary.core.errors import RequestError

if TYPE_CHECKING:
    from distributary.access.tokens import TokenVerifier

AUTHORIZATION_BYTES_MAX: Final = 8 * 1024
"""Longest value of ``Authorization`` that is looked at: a header field may have no more."""

REMEMBERED_MAX: Final = 4_096
"""Credentials whose identity is remembered, and admitted pairs of credentials and address; beyond
it the memory begins anew. Some megabytes."""

MINUTE_MS: Final = 60_000
"""Uses of keys are noted by the minute. So often what was admitted is forgotten: whoever goes on
publishing is identified again, once a minute, and the hot path notes nothing."""

REFUSED_TOKENS_MAX: Final = 500
"""Most tokens whose signature is found wrong in a second; then those not seen before are answered
503 until the next one. To refuse one takes 0.1 to 0.5 ms, which whoever sends them must not take
from publishers whose tokens are remembered."""


class Decision(NamedTuple):
    """What the gate would do.

    Attributes:
        refusal: Why it refuses, for people; None: it does not.
        filtered: Names of policies of which each event must pass the filters of one; empty: every
            event may be sent.
    """

    refusal: str | None
    filtered: tuple[str, ...] = ()


class Gate:
    """Makes identities of credentials, and asks what they may do. For one thread.

    Args:
        wall_ms: The wall clock, in milliseconds.

    Attributes:
        required: Whether a client must show who it is.
        admitted: Credentials and publishing addresses that were admitted: the hot path looks up
            these alone. ``renew`` and ``replace`` forget them in time.
        uses: When valid keys were used last: id -> the minute, wall clock, milliseconds.
        generation: Rises whenever something of ``admitted`` is forgotten: what was found there
            under another number has to be looked up again.
    """

    __slots__ = (
        "_asked",
        "_identities",
        "_ids",
        "_keys",
        "_minute_ms",
        "_policies",
        "_refused",
        "_refused_s",
        "_snapshot",
        "_tokens",
        "_wall_ms",
        "admitted",
        "generation",
        "required",
        "uses",
    )

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._identities: dict[Credentials, Identity] = {}
        self._snapshot = AccessSnapshot()
        self._asked: set[str] = set()
        self._refused = self._refused_s = 0
        self._tokens: TokenVerifier | None = None
        self.admitted: dict[tuple[Credentials, str], Identity] = {}
        self.generation = 0
        self.uses: dict[str, int] = {}
        self._keys: dict[str, keys.KeyRecord] = {}
        self._ids: dict[str, str] = {}
        self._policies = Policies()
        self._minute_ms = self._minute()
        self.replace(AccessSnapshot())

    def replace(self, snapshot: AccessSnapshot) -> None:
        """Decide by *snapshot* from now on.

        Forgets who has shown what, but for tokens whose issuers are as before: to verify thousands
        of them anew takes half a second, and keys are made and revoked at any time.
        """
        before, self._snapshot = self._snapshot, snapshot
        if snapshot.issuers != before.issuers:
            self._tokens = _verifier_of(snapshot)
        kept = {}
        if _trusted(snapshot) == _trusted(before):
            each = self._identities.items()
            kept = {shown: one for shown, one in each if one.how is IdentityKind.TOKEN}
        self._identities = kept
        self.required = snapshot.required
        self._policies = Policies(snapshot.policies, self._policies)
        if snapshot.keys != before.keys:  # thousands, which are the same objects as a rule
            self._keys = {record.id: record for record in snapshot.keys}
            self._ids = {record.identity().name: record.id for record in snapshot.keys}
        self.uses = {each: used for each, used in self.uses.items() if each in self._keys}
        self._forget_admitted()

    def take_asked(self) -> frozenset[str]:
        """Returns URLs of issuers whose newest keys are needed, since the last call.

        Their tokens have shown keys that are not known. The control process fetches them; few are
        named, since each is trusted.
        """
        taken = frozenset(self._asked)
        self._asked.clear()
        return taken

    def renew(self) -> None:
        """Forget who has expired, and each minute what was admitted. Call it every second."""
        now_ms = self._wall_ms()
        minute_ms = self._minute()
        if minute_ms != self._minute_ms:
            self._minute_ms = minute_ms
            self._forget_admitted()
        ended = [
            shown
            for shown, identity in self._identities.items()
            if identity.until_ms is not None and identity.until_ms <= now_ms
        ]
        for shown in ended:
            del self._identities[shown]
        each = self.admitted.items()
        late = [pair for pair, one in each if one.until_ms and one.until_ms <= now_ms]
        for pair in late:
            del self.admitted[pair]
        self.generation += bool(late)

    def _forget_admitted(self) -> None:
        self.admitted.clear()
        self.generation += 1

    def identify(self, shown: Credentials) -> Identity:
        """Who shows *shown*; ``ANYBODY`` where nothing is required.

        A header field counts, not the certificate, where both are there.

        Raises:
            UnauthenticatedError: Nothing is shown, or nothing valid.
        """
        if not self.required:
            return ANYBODY
        found = self._identities.get(shown)
        if found is None:
            found = self._read(shown)
            if len(self._identities) >= REMEMBERED_MAX:
                self._identities.clear()
            self._identities[shown] = found
        if found.until_ms is not None and found.until_ms <= self._wall_ms():
            raise UnauthenticatedError("What the request shows has expired.", invalid=True)
        if found.how is IdentityKind.KEY:
            self.uses[self._ids[found.name]] = self._minute_ms
        return found

    def _minute(self) -> int:
        """The minute of now, wall clock, milliseconds."""
        now_ms = self._wall_ms()
        return now_ms - now_ms % MINUTE_MS

    def check(self, identity: Identity, permission: Permission) -> None:
        """Check that *identity* may do what a request needs.

        Raises:
            ForbiddenError: It may not.
        """
        if not identity.may(permission):
            raise ForbiddenError(identity, permission)

    def check_publisher(
        self, identity: Identity, permission: Permission, target: str
    ) -> tuple[PolicyRecord, ...]:
        """Check that *identity* may send events to *target*, by its grants and by policies.

        What the server itself sends on behalf of another namespace needs a policy that allows it;
        policies give nobody else more than grants do.

        Args:
            identity: Who sends.
            permission: To publish.
            target: Broker or Channel with its namespace, such as ``brokers/shop/default``.

        Returns:
            Policies of which each event must pass one; empty: every event may be sent.

        Raises:
            ForbiddenError: It may not.
        """
        local = identity.how is IdentityKind.LOCAL
        if not local:  # first: who has no grant costs no look at policies, and learns of none
            self.check(identity, permission)
        judgement = self._policies.judge(target, identity.subject)
        if local and not judgement.allowed:
            self.check(identity, permission)
        if judgement.applies and not judgement.allowed:
            raise ForbiddenError(
                identity, permission, f"no EventPolicy lets {identity.subject} send"
            )
        return judgement.filtered

    def decide(self, identity: Identity, permission: Permission) -> Decision:
        """Whether *identity* could do what a request needs, by its grants and by policies."""
        try:
            if permission.verb is not Verb.PUBLISH or not permission.name or not self.required:
                self.check(identity, permission)
                return Decision(None)
            filtered = self.check_publisher(identity, permission, permission.target)
        except ForbiddenError as error:
            return Decision(str(error))
        return Decision(None, tuple(policy.name for policy in filtered))

    def delivers(self, namespace: str, target: str) -> bool:
        """Whether deliveries of *namespace* may publish to *target*. For any thread.

        Args:
            namespace: On whose behalf they publish.
            target: As of ``check_publisher``.
        """
        kind, there, name = target.split("/")
        permission = Permission(Verb.PUBLISH, there, f"{kind}/{name}")
        try:
            self.check_publisher(internal.publisher_for(namespace), permission, target)
        except ForbiddenError:
            return False
        return True

    def narrows(self, namespace: str) -> bool:
        """Whether policies narrow who may publish in *namespace*."""
        return self.required and self._policies.protect(namespace)

    def admit(self, shown: Credentials, address: str, identity: Identity) -> None:
        """Remember that *identity*, who shows *shown*, may publish to *address*."""
        if len(self.admitted) >= REMEMBERED_MAX:
            self.admitted.clear()
        self.admitted[(shown, address)] = identity

    def _read(self, shown: Credentials) -> Identity:
        if shown.authorization:
            return self._of_authorization(shown.authorization)
        if shown.certificate is not None:
            holder = holder_of(shown.certificate, self._snapshot.certificates)
            if holder is None:
                raise UnauthenticatedError(
                    "No name of the client certificate is accepted here.", invalid=True
                )
            return holder
        raise UnauthenticatedError(
            "Show who you are: an API key or a token, as Authorization: Bearer.", invalid=False
        )

    def _of_authorization(self, value: bytes) -> Identity:
        scheme, _, text = value.partition(b" ")
        if len(value) > AUTHORIZATION_BYTES_MAX:
            raise UnauthenticatedError("Authorization is too long.", invalid=True)
        if scheme.lower() != b"bearer":
            raise UnauthenticatedError("Authorization must be Bearer.", invalid=False)
        try:
            return self.of_bearer(text.strip(b" ").decode("ascii"))
        except UnicodeDecodeError as error:
            raise UnauthenticatedError("Authorization is not ASCII.", invalid=True) from error

    def of_bearer(self, text: str) -> Identity:
        """Who shows the key or token *text*, whatever the protocol.

        Raises:
            UnauthenticatedError: It is not valid.
            RequestError: ``unavailable``: the keys of its issuer have to be fetched first.
        """
        if text.startswith(internal.PREFIX):
            server = internal.holder_of_token(text, self._snapshot.internal)
            if server is None:
                raise UnauthenticatedError("The token is not of this server.", invalid=True)
            return server
        if "." in text:  # no key has one, and every token
            return self._of_token(text)
        record = keys.find(text, self._keys)
        if record is None:
            raise UnauthenticatedError("The key is not valid here.", invalid=True)
        identity = record.identity()
        if identity.until_ms is not None and identity.until_ms <= self._wall_ms():
            raise UnauthenticatedError("The key has expired.", invalid=True)
        self.uses[record.id] = self._minute_ms
        return identity

    def _of_token(self, text: str) -> Identity:
        tokens, now_ms = self._tokens, self._wall_ms()
        if tokens is None:
            raise UnauthenticatedError("No issuer of tokens is trusted here.", invalid=True)
        if now_ms // 1000 != self._refused_s:
            self._refused_s, self._refused = now_ms // 1000, 0
        elif self._refused >= REFUSED_TOKENS_MAX:
            raise RequestError("unavailable", "Too many tokens were refused in this second.")
        found = tokens.identity(text.encode(), now_ms)
        if isinstance(found, Identity):
            return found
        self._refused += not found.cheap
        if found.issuer is not None:
            self._asked.add(found.issuer)
        if tokens.is_for_now(found, now_ms):
            raise RequestError("unavailable", f"{found}; its newest keys are being fetched.")
        raise UnauthenticatedError(f"{found}.", invalid=True)


def _verifier_of(snapshot: AccessSnapshot) -> "TokenVerifier | None":
    if not snapshot.issuers:
        return None
    # PyJWT takes 50 ms: a receiver without issuers does without.
    from distributary.access.tokens import TokenVerifier  # noqa: PLC0415 - see above

    return TokenVerifier(snapshot.issuers)


def _trusted(snapshot: AccessSnapshot) -> list[object]:
    """What decides about tokens."""
    return [(record.issuer, record.keys) for record in snapshot.issuers]
