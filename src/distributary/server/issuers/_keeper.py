"""Keeps the public keys of issuers fresh: one loop, in the control process.

Made by ``server.processes``. Keys are fetched at the start, every few minutes, and when a token
shows a key that is not known. What an issuer publishes counts: a withdrawn key is dropped with the
next fetch. An issuer that cannot be reached keeps its keys for a day.
"""

import asyncio
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog

from distributary.access.issuers import ASKED_S_MIN, IssuerRecord
from distributary.access.jwks import KeySet, key_set
from distributary.core.clock import Clock, Random
from distributary.core.errors import StoreError, TransportError
from distributary.core.periodic import keep_looking
from distributary.server.issuers._documents import Documents, fetch_keys
from distributary.server.issuers._tables import IssuerSettings

LOOK_S: Final = 0.5
"""Interval of looking for what is due and what receivers ask for, seconds."""

BACKOFF_S_FIRST: Final = 1.0
"""First wait after a failed fetch, seconds; each further one doubles it."""

BACKOFF_S_MAX: Final = 60.0
"""Longest wait after a failed fetch, seconds: the issuer's return should be noticed soon."""

JITTER_SHARE: Final = 0.1
"""Each wait is shortened by up to this share, at random, so that servers spread their fetches."""

KEPT_S_MAX: Final = 86_400.0
"""Longest time for which keys count that could not be fetched again, seconds. Tokens of an issuer
that is down expire within hours; a key that leaked must not count for ever because of it."""

PUBLISH_MS: Final = 3_600_000
"""Age at which the time of the last fetch is published although no key has changed, milliseconds:
each time all receivers read the file anew."""

_log = structlog.get_logger(__name__)


class _Kept:
    """An issuer, its keys, and when to fetch them.

    Attributes:
        settings: The issuer.
        documents: Gets its documents.
        keys: What is known; None: nothing yet.
        fetched_ms: Wall clock at which they were fetched, milliseconds.
        published_ms: That time, as it was published last.
        asked_ms: That time, of the last fetch that an unknown key had asked for.
        due_s: Monotonic time of the next fetch.
        asked: Whether an unknown key asks for a fetch.
        asked_s: Monotonic time of the last fetch that one asked for; None: there was none.
        failures: In a row.
        task: The fetch under way.
    """

    def __init__(self, settings: IssuerSettings, documents: Documents, now_s: float) -> None:
        self.settings = settings
        self.documents = documents
        self.keys: KeySet | None = None
        self.fetched_ms = self.published_ms = self.asked_ms = 0
        self.due_s = now_s
        self.asked = False
        self.asked_s: float | None = None
        self.failures = 0
        self.task: asyncio.Task[None] | None = None

    @property
    def record(self) -> IssuerRecord:
        """What receivers are told."""
        keys = () if self.keys is None else self.keys.keys
        return IssuerRecord(
            issuer=self.settings.issuer,
            keys=tuple(dict(key.jwk) for key in keys),
            fetched_ms=self.fetched_ms,
            asked_ms=self.asked_ms,
        )

    def is_due(self, now_s: float) -> bool:
        """Whether to fetch the keys now."""
        if self.task is not None:
            return False
        may_ask = self.asked_s is None or now_s >= self.asked_s + ASKED_S_MIN
        return now_s >= self.due_s or (self.asked and may_ask)


class KeyKeeper:
    """Fetches the keys of issuers, and publishes them when they change.

    Args:
        clock: For intervals and ages.
        random: For jitter.
        publish: Called with all issuers and their keys, when any have changed. May raise
            ``StoreError``: then the next look publishes again.
        asked: Returns URLs of issuers of which tokens with unknown keys came since the last call.
        count: Counts fetches by result; called with a counter's name and its increase.
    """

    def __init__(
        self,
        clock: Clock,
        random: Random,
        publish: Callable[[tuple[IssuerRecord, ...]], None],
        *,
        asked: Callable[[], Iterable[str]],
        count: Callable[[str, float], None],
    ) -> None:
        self._clock = clock
        self._random = random
        self._publish = publish
        self._asked = asked
        self._counter = count
        self._kept: dict[str, _Kept] = {}
        self._changed = False
        self._wake = asyncio.Event()

    @property
    def records(self) -> tuple[IssuerRecord, ...]:
        """The issuers with the keys that are known."""
        return tuple(kept.record for kept in self._kept.values())

    def configure(
        self,
        issuers: Sequence[tuple[IssuerSettings, Documents]],
        known: Iterable[IssuerRecord] = (),
    ) -> None:
        """Replace the issuers; keys of those that stay are kept, and fetched anew.

        Args:
            issuers: Each with what gets its documents.
            known: Issuers with keys as an earlier process knew them.
        """
        earlier = {_place(one): one for one in known}
        earlier |= {_place(one): one for one in self.records if one.fetched_ms}
        self.stop()
        now_s = self._clock.monotonic_s()
        self._kept = {}
        for settings, documents in issuers:
            kept = self._kept[settings.issuer.url] = _Kept(settings, documents, now_s)
            record = earlier.get(_place(kept.record))
            if record is not None and record.fetched_ms:
                kept.keys, kept.fetched_ms = key_set(record.keys), record.fetched_ms
        self._changed = True
        self._wake.set()

    async def run(self) -> None:
        """Fetch keys until cancelled."""
        for result in ("fetched", "failed"):
            self._count(result, 0)
        try:
            await keep_looking(self.look, self._wake, LOOK_S, self._clock, "issuer-keys")
        finally:
            self.stop()

    async def look(self) -> None:
        """Start the fetches that are due, and publish what has changed."""
        for url in self._asked():
            if url in self._kept:
                self._kept[url].asked = True
        now_s = self._clock.monotonic_s()
        for kept in self._kept.values():
            self._give_up(kept)
            if kept.is_due(now_s):
                asked, kept.asked = kept.asked, False
                if asked:
                    kept.asked_s = now_s
                name = f"keys of {kept.settings.issuer.name}"
                work = self._fetch(kept, asked=asked)
                kept.task = asyncio.get_running_loop().create_task(work, name=name)
        if self._changed:
            self._publish_all()

    def _publish_all(self) -> None:
        try:
            self._publish(self.records)
        except StoreError as error:  # the next look tries again
            _log.warning("issuer-keys-not-published", reason=str(error))
            return
        self._changed = False
        for kept in self._kept.values():
            kept.published_ms = kept.fetched_ms

    async def settle(self) -> None:
        """Wait for the fetches under way."""
        tasks = [kept.task for kept in self._kept.values() if kept.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self) -> None:
        """Cancel the fetches under way."""
        for kept in self._kept.values():
            if kept.task is not None:
                kept.task.cancel()

    async def _fetch(self, kept: _Kept, *, asked: bool) -> None:
        try:
            keys = await fetch_keys(kept.settings, kept.documents)
        except TransportError as error:
            self._failed(kept, str(error))
        # A bug must not end the fetches of this issuer. Its message is left out: it may quote.
        except Exception as error:  # noqa: BLE001 - see above
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self._failed(kept, f"a bug: {type(error).__name__} in {frame.name}:{frame.lineno}")
        else:
            self._fetched(kept, keys)
            if asked:  # receivers wait for it, also where nothing has changed
                kept.asked_ms = kept.fetched_ms
                self._changed = True
        finally:
            kept.task = None
            self._wake.set()

    def _fetched(self, kept: _Kept, keys: KeySet) -> None:
        self._count("fetched")
        kept.failures = 0
        kept.fetched_ms = self._clock.wall_ms()
        kept.due_s = self._clock.monotonic_s() + self._shortened(kept.settings.refresh_s)
        if kept.keys is not None and _jwks(kept.keys) == _jwks(keys):
            # A restart reads the time of the last fetch from what was published.
            self._changed = self._changed or kept.fetched_ms >= kept.published_ms + PUBLISH_MS
            return
        kept.keys = keys
        self._changed = True
        say = _log.info if keys.keys else _log.warning
        say(
            "issuer-keys-changed",
            issuer=kept.settings.issuer.name,
            keys=[key.key_id for key in keys.keys],
            left_out=list(keys.left_out),
        )

    def _failed(self, kept: _Kept, reason: str) -> None:
        self._count("failed")
        kept.failures += 1
        wait_s = min(BACKOFF_S_FIRST * 2.0 ** min(kept.failures - 1, 30), BACKOFF_S_MAX)
        wait_s = self._shortened(wait_s)
        kept.due_s = self._clock.monotonic_s() + wait_s
        _log.warning(
            "issuer-keys-not-fetched",
            issuer=kept.settings.issuer.name,
            reason=reason,
            failures=kept.failures,
            wait_s=round(wait_s, 1),
            known_keys=0 if kept.keys is None else len(kept.keys.keys),
        )

    def _give_up(self, kept: _Kept) -> None:
        """Drop keys that are too old to count."""
        age_s = (self._clock.wall_ms() - kept.fetched_ms) / 1000
        if kept.keys is None or age_s <= KEPT_S_MAX:
            return
        kept.keys, kept.fetched_ms = None, 0
        kept.due_s = min(kept.due_s, self._clock.monotonic_s())  # perhaps the machine slept
        self._changed = True
        _log.error("issuer-keys-given-up", issuer=kept.settings.issuer.name, age_s=int(age_s))

    def _shortened(self, wait_s: float) -> float:
        return wait_s * (1.0 - JITTER_SHARE * self._random.unit())

    def _count(self, result: str, count: int = 1) -> None:
        self._counter(f'issuer_key_fetches_total{{result="{result}"}}', count)


def _place(record: IssuerRecord) -> tuple[str, str | None]:
    """Where the keys of an issuer come from."""
    return record.issuer.url, record.issuer.jwks_uri


def _jwks(keys: KeySet) -> list[Mapping[str, str]]:
    return [key.jwk for key in keys.keys]
