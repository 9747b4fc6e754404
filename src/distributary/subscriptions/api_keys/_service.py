"""Makes, lists and revokes API keys for administrators of namespaces."""

import asyncio
import secrets
from typing import Final, NamedTuple, Protocol

from distributary.access import Identity, IdentityKind, KeyRecord, beyond, make_key, oversees
from distributary.core.clock import Clock
from distributary.core.errors import ConflictError, NotFoundError, RequestError, StoreError
from distributary.core.turns import Places, in_thread
from distributary.subscriptions.api_keys._proposal import KeyProposal, read_proposal
from distributary.subscriptions.api_keys._store import ApiKeyStore, StoredKey

UNKNOWN: Final = "there is no key with this id"


class Announce(Protocol):
    """Who tells all processes which keys are valid."""

    @property
    def configured(self) -> tuple[KeyRecord, ...]:
        """The keys in the configuration file."""

    async def announce(self) -> None:
        """Tell what is stored now; the receivers follow within a second.

        Raises:
            StoreError: They could not be told yet; the announcer goes on trying.
        """


class MadeKey(NamedTuple):
    """A key that was just made.

    Attributes:
        key: What is kept of it.
        text: The whole key, which nobody can read again.
    """

    key: StoredKey
    text: str

    def __repr__(self) -> str:
        """Without the key."""
        return f"MadeKey({self.key.record.name!r})"


class ApiKeys:
    """The operations on API keys. For one event loop.

    Args:
        store: Keeps them.
        announcer: Tells them to all processes.
        clock: For stamps and expiry.
    """

    def __init__(
        self,
        store: ApiKeyStore,
        announcer: Announce,
        clock: Clock,
    ) -> None:
        self._store = store
        self._announcer = announcer
        self._clock = clock
        self._turns = Places(1)

    async def make(self, maker: Identity, body: object) -> MadeKey:
        """Make the key that the JSON value *body* proposes; receivers accept it within a second.

        Raises:
            ResourceError: *body* is no proposal; with every fault.
            RequestError: *maker* may not give what is proposed (``forbidden``), or there are as
                many keys as may be.
            ConflictError: A valid key has this name.
            StoreError: No key was made.
        """
        now_ms = self._clock.wall_ms()
        proposal = read_proposal(body, now_ms)
        self._check_maker(maker, proposal)
        made = make_key(secrets.token_bytes)
        record = KeyRecord(
            id=made.id,
            name=proposal.name,
            sha256=made.sha256,
            grants=(proposal.grant,),
            until_ms=proposal.until_ms,
        )
        key = StoredKey(record, now_ms, maker.name)
        async with self._turns.one(maker.holder):
            reserved = {each.name for each in self._announcer.configured}
            await asyncio.to_thread(self._store.add, key, now_ms, reserved)
            try:
                await self._announcer.announce()
            except StoreError:
                # Its text is shown to nobody, so it must not stay.
                await asyncio.to_thread(self._store.remove, made.id)
                raise
        return MadeKey(key, made.text)

    def _check_maker(self, maker: Identity, proposal: KeyProposal) -> None:
        missing = beyond(maker, (proposal.grant,))
        if missing:
            raise RequestError(
                "forbidden", f"{maker.name} may not {missing[0]}, so it can give no such key."
            )
        ends = maker.until_ms if maker.how is IdentityKind.KEY else None
        if ends is not None and (proposal.until_ms is None or proposal.until_ms > ends):
            raise RequestError(
                "forbidden", f"{maker.name} expires, and can give no key that is valid for longer."
            )

    async def all(self, reader: Identity) -> list[StoredKey]:
        """The keys whose namespaces *reader* administers, by name, expired ones included.

        Raises:
            StoreError: They cannot be read now.
        """
        return [key for key in await self._read(reader) if oversees(reader, key.record.grants)]

    async def find(self, reader: Identity, id_: str) -> StoredKey:
        """The key with this id.

        Raises:
            NotFoundError: There is none whose namespaces *reader* administers.
            StoreError: It cannot be read now.
        """
        for key in await self.all(reader):
            if key.record.id == id_:
                return key
        raise NotFoundError(UNKNOWN)

    async def revoke(self, revoker: Identity, id_: str) -> StoredKey:
        """Revoke a key: every receiver refuses it within a second. Returns its last state.

        Raises:
            NotFoundError: There is none whose namespaces *revoker* administers.
            ConflictError: The key stands in the configuration file.
            StoreError: It is not revoked, or not everywhere yet: ask again.
        """
        async with self._turns.one(revoker.holder):
            key = await self.find(revoker, id_)
            if key.created_ms is None:
                raise ConflictError(
                    "this key stands in the configuration file: remove it there, and send SIGHUP"
                )
            await asyncio.to_thread(self._store.remove, id_)
            await self._announcer.announce()
        return key

    async def _read(self, reader: Identity) -> list[StoredKey]:
        stored = await in_thread(reader.holder, self._store.read_all)
        uses = await in_thread(reader.holder, self._store.uses)
        configured = [
            StoredKey(record, None, "", uses.get(record.id))
            for record in self._announcer.configured
        ]
        return sorted([*stored, *configured], key=lambda key: key.record.name)
