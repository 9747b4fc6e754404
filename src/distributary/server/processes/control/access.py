"""Who may do what, as the control process gathers it and tells the receivers."""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from distributary.access import AccessSnapshot, Gate, IssuerRecord, KeyRecord, PolicyRecord
from distributary.access.internal import SEED_BYTES, InternalKey
from distributary.access.tables import read_certificates, read_keys
from distributary.core.clock import Clock
from distributary.core.database import StorePlace
from distributary.core.errors import SettingsError, StoreError
from distributary.datadir import DataDir, keep_internal_key
from distributary.datadir.key_uses import load_uses
from distributary.resource import Reach
from distributary.server.issuers import read_issuers
from distributary.server.processes.base.ground import auth_required
from distributary.server.processes.control._issuers import IssuerKeys
from distributary.server.processes.control.form import AccessBoard, FileBoard
from distributary.server.settings import Settings
from distributary.subscriptions.api_keys import ApiKeys, ApiKeyStore, StoredKey

RETRY_S: Final = 1.0
"""Interval at which receivers are told again what could not be written."""
MERGE_S: Final = 60.0
"""Interval at which the last uses of keys are stored: they are noted by the minute."""

FIRST_KEY: Final = "distributary key create --data-dir {} --name admin --may admin --namespace '*'"
"""The command that makes the first key; people paste it into a shell."""


class Access:
    """Gathers who may do what, and writes it for the receivers. For one event loop.

    Receivers are told nothing before ``change_policies``: those of nodes go on while the process
    that leads is another one, and would let in what a policy forbids until this one has read it.

    Args:
        paths: Paths of the data directory; the resource store exists.
        clock: For expiries and stamps, and for the keys of issuers.
        receivers: Number of receivers.
        place: Where the resource store lies.
        board: Tells the receivers; None: a file does.

    Attributes:
        gate: Decides for what reaches the control process by no receiver.
        issuers: Keeps the keys of issuers fresh.
        keys: Operations on API keys.

    Raises:
        StoreError: The API keys cannot be read.
    """

    def __init__(
        self,
        paths: DataDir,
        clock: Clock,
        receivers: int,
        *,
        place: StorePlace,
        board: AccessBoard | None = None,
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._board = FileBoard(paths, receivers) if board is None else board
        url, leader = place
        self._store = ApiKeyStore(url, leader=leader)
        self.gate = Gate(clock.wall_ms)
        self.keys = ApiKeys(self._store, self, clock)
        self._configured = AccessSnapshot(required=True)
        self._applied = False
        self._internal = ""
        self.issuers = IssuerKeys(paths, clock, receivers, self.gate, self._change_issuers)
        self._turn = asyncio.Lock()
        self._number = self._board.newest()
        self._policies_number = 0  # until the policies are known
        # Read here, before an event loop runs, and by ``announce`` after each change.
        self._stored: Sequence[StoredKey] = self._store.read_all()
        self._untold = False
        self._task: asyncio.Task[None] | None = None
        self._log = structlog.get_logger()

    def apply(self, settings: Settings, reach: Reach) -> None:
        """Decide by *settings* from now on, in every process; receivers, once policies are known.

        Args:
            settings: The settings.
            reach: Addresses that issuers may have.

        A key whose name one of the store has is refused, and left out at the first call: whoever
        may make keys in one namespace must not keep a server from starting, or a node from leading.

        Raises:
            SettingsError: Their tables are unusable; a line for each fault.
            StoreError: The file for the receivers cannot be written.
        """
        keys, key_faults = read_keys(settings.keys)
        certificates, certificate_faults = read_certificates(settings.certificates)
        issuers, issuer_faults = read_issuers(settings.issuers)
        clashes = self._clashes(keys, self._stored)
        faults = [*key_faults, *certificate_faults, *issuer_faults]
        if self._applied:
            faults += clashes.values()
        if faults:
            raise SettingsError("\n".join(("These settings cannot be used:", *faults)))
        if not self._applied:
            for fault in clashes.values():
                self._log.error("key-left-out", reason=fault)
            keys = tuple(key for key in keys if key.name not in clashes)
        self._applied = True
        self.issuers.configure(issuers, reach)
        self._decide_by(
            AccessSnapshot(
                required=auth_required(settings),
                internal=self._public_key(),
                keys=keys,
                certificates=certificates,
                issuers=self.issuers.records,
                policies=self._configured.policies,
            )
        )

    @property
    def required(self) -> bool:
        """Whether clients must show who they are."""
        return self._configured.required

    def change_policies(self, policies: Sequence[PolicyRecord]) -> int:
        """Decide by *policies* from now on, in every process: see ``decided``.

        Returns:
            Number of the snapshot that tells them.

        Raises:
            StoreError: The file for the receivers cannot be written.
        """
        with_policies = msgspec.structs.replace(self._configured, policies=tuple(policies))
        self._decide_by(with_policies, tell=True)
        self._policies_number = self._number
        return self._number

    def decided(self) -> int:
        """Number of the oldest snapshot that a receiver decides by; where there is none, newest."""
        return min(self._board.numbers(), default=self._number)

    def _change_issuers(self, records: tuple[IssuerRecord, ...]) -> None:
        self._decide_by(msgspec.structs.replace(self._configured, issuers=records))

    def _decide_by(self, configured: AccessSnapshot, *, tell: bool = False) -> None:
        snapshot = self._with_stored(configured)
        if tell or self._policies_number:
            self._board.publish(snapshot.number, snapshot.encode())
        self._configured = configured
        self.gate.replace(snapshot)

    @property
    def configured(self) -> tuple[KeyRecord, ...]:
        """The keys in the configuration file."""
        return self._configured.keys

    def _clashes(self, keys: Sequence[KeyRecord], stored: Sequence[StoredKey]) -> dict[str, str]:
        """Returns what is wrong with each key of *keys* whose name is taken, by name."""
        now_ms = self._clock.wall_ms()
        taken = {key.record.name for key in stored if key.valid(now_ms)}
        return {
            record.name: f"keys[{index}].name (configuration file): a key of the store has it;"
            " revoke that one (distributary key revoke), or choose another name"
            for index, record in enumerate(keys)
            if record.name in taken
        }

    async def announce(self) -> None:
        """Tell the receivers about the keys that are stored now, and wait until they decide by it.

        ``ApiKeys`` calls it: a new key can be used, and a revoked one cannot, once it has answered.

        Raises:
            StoreError: They could not be told; this object tries again every second.
        """
        async with self._turn:
            self._untold = True
            self._stored = await asyncio.to_thread(self._store.read_all)
            snapshot = self._with_stored(self._configured)
            self.gate.replace(snapshot)
            if self._policies_number:
                self._board.publish(snapshot.number, snapshot.encode())
            self._untold = False
            if self._policies_number:
                await self._told(snapshot.number)

    async def _told(self, number: int) -> None:
        """Wait until all receivers decide by the snapshot with this number, or a later one.

        No longer than the board allows: one that hangs reads it before its next request.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._board.told_s_max):
                while self.decided() < number:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(self._board.look_s)

    def _with_stored(self, configured: AccessSnapshot) -> AccessSnapshot:
        """What is *configured*, with the keys of the store that are valid."""
        now_ms = self._clock.wall_ms()
        valid = tuple(key.record for key in self._stored if key.valid(now_ms))
        self._number = max(self._number + 1, now_ms)
        return msgspec.structs.replace(
            configured, number=self._number, keys=(*configured.keys, *valid), stored=len(valid)
        )

    def _public_key(self) -> str:
        if not self._internal:
            new = secrets.token_bytes(SEED_BYTES)
            self._internal = InternalKey(keep_internal_key(self._paths.internal_key, new)).public
        return self._internal

    # -- while the server runs ----------------------------------------------------------------

    def start(self) -> None:
        """Go on telling the receivers, and storing when keys were used."""
        if self._configured.required and not self._anybody():
            self._log.warning(
                "nobody-has-access",
                reason="authentication is required, and nobody could show who it is",
                make_one=FIRST_KEY.format(self._paths.root),
            )
        self._task = asyncio.get_running_loop().create_task(self._run())

    def _anybody(self) -> bool:
        configured = self._configured
        known = configured.keys or configured.certificates or configured.issuers
        return bool(known or self._stored)

    async def _run(self) -> None:
        merged_s = float("-inf")
        while True:
            self.gate.renew()
            try:
                if self._untold:
                    await self.announce()
                if self._clock.monotonic_s() - merged_s >= MERGE_S:
                    merged_s = self._clock.monotonic_s()
                    await asyncio.to_thread(self._merge)
            except StoreError as error:
                self._log.warning("keys-held-up", reason=str(error))
            await asyncio.sleep(RETRY_S)

    def _merge(self) -> None:
        """Store when keys were used last, by the files of all receivers."""
        files = sorted(self._paths.run.glob("key-uses*.json"))
        found = load_uses(files)
        for key_id, used_ms in self.gate.uses.copy().items():
            found[key_id] = max(used_ms, found.get(key_id, used_ms))
        known = {record.id for record in self.configured}
        known |= {key.record.id for key in self._store.read_all()}
        before = self._store.uses()
        self._store.note_uses(
            {
                key_id: used_ms
                for key_id, used_ms in found.items()
                if key_id in known and used_ms > before.get(key_id, 0)
            }
        )
        if before.keys() - known:
            self._store.forget_uses(known)

    async def close(self) -> None:
        """Store the last uses, once the receivers have ended, and close the store."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(self._merge)
        self._store.close()
        self._board.close()
