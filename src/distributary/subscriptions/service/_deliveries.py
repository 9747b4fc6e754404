"""Dead letters of subscriptions; requests to redrive and purge.

The control process reads what partition consumers write (their delivery databases), and writes each
request as a *demand* into its own store; each consumer carries it out later.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from distributary.core.clock import Clock
from distributary.core.demand import Demand, DemandDetails, DemandKind
from distributary.core.errors import EventError, Fault, NotFoundError, ResourceError
from distributary.core.event import json_format
from distributary.core.event import record as event_record
from distributary.core.outcome import (
    DeliveryRowsReader,
    Failure,
    KeptDeadLetter,
    LetterChoice,
    letters_of,
)
from distributary.core.shown import shown_uri
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.subscriptions.consent import CALLBACK_CONSENT_MS, read_rate, renewal_ms
from distributary.subscriptions.service._runs import Awaited, Runs, nothing_awaited
from distributary.subscriptions.service._steering import Steerings
from distributary.subscriptions.store.consent_rows import CallbackConsent, ConsentRow
from distributary.subscriptions.store.demands import RouteName
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import SubscriptionPage

PART_BYTES: Final = 4 * 1024 * 1024
"""A part of the list of dead letters ends once its events have that many bytes."""
_CURSOR = re.compile(r"([0-9]{1,3})-([0-9]{1,18})")


class DeadLetterSelection(NamedTuple):
    """Selects dead letters of a namespace: of a subscription, of a route, or (neither) all.

    Attributes:
        subscription: Id of a subscription.
        route: Uid of a route, also of a deleted one.
        namespace: Where.
        since_ms: Kept then or later, wall clock, milliseconds; None: any time.
        until_ms: Kept before this time, likewise.
    """

    subscription: str | None
    route: str | None
    namespace: str = DEFAULT_NAMESPACE
    since_ms: int | None = None
    until_ms: int | None = None


class ListedDeadLetter(NamedTuple):
    """A kept dead letter, for people.

    Attributes:
        id: Its place in the list.
        route: Uid of its route.
        name: Owner of the route; None: deleted.
        kept_ms: Wall clock when it was kept, milliseconds.
        failure: Why it is one.
        event_json: The event from the log, in the JSON format; None: its bytes are no longer
            readable.
    """

    id: str
    route: str
    name: RouteName | None
    kept_ms: int
    failure: Failure
    event_json: bytes | None


class Deliveries:
    """Reads the dead letters of all partitions, and sends demands. Blocking; safe from any thread.

    Methods raise ``StoreError`` where state cannot be read now; no demand was made then.

    Args:
        store: Resources and demands.
        clock: For stamps.
        readers: Of the deliveries of each partition, in their order.
        awaited: See ``Runs``.

    Attributes:
        runs: Starts, lists and ends runs.
        steering: Pauses, disables, retries and replays subscriptions.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        readers: Sequence[DeliveryRowsReader],
        awaited: Awaited = nothing_awaited,
    ) -> None:
        self._store = store
        self._clock = clock
        self._readers = readers
        self.runs = Runs(store, clock, self._readers, awaited)
        self.steering = Steerings(store, clock, self.runs)

    def confirm(self, name: str, key: str, rates: Iterable[bytes]) -> ConsentRow:
        """Store the consent that a target gives by the callback URL it was offered.

        Args:
            name: Of the target, in the URL.
            key: Secret in the URL.
            rates: Values of ``WebHook-Allowed-Rate`` that came with it.

        Raises:
            NotFoundError: There is no such URL, or it has ended.
            ResourceError: A rate is not valid; nothing is given.
        """
        try:
            rate = read_rate(rates)
        except ValueError as error:
            raise ResourceError([Fault("WebHook-Allowed-Rate", "value", str(error))]) from error
        now_ms = self._clock.wall_ms()
        allowed = CallbackConsent(
            rate,
            now_ms,
            now_ms + CALLBACK_CONSENT_MS,
            renewal_ms(now_ms, CALLBACK_CONSENT_MS, 0.0),
        )
        given = self._store.confirm(name, key, allowed)
        if given is None:
            raise NotFoundError(
                "nobody is asked at this URL, or it has ended: the next question brings another"
            )
        return given

    def dead_letters(
        self, selection: DeadLetterSelection, limit: int, cursor: str | None
    ) -> SubscriptionPage[ListedDeadLetter]:
        """Return a part of the kept dead letters; the oldest of a partition first.

        Args:
            selection: Which.
            limit: Most dead letters, from 1; a part may end earlier.
            cursor: ``SubscriptionPage.next_cursor`` of the part before; None: from the beginning.

        Raises:
            NotFoundError: The subscription does not exist in the namespace.
            ResourceError: *cursor* is invalid.
        """
        choice = self._choice(selection)
        partition, after = _read_cursor(cursor)
        found: list[tuple[int, int, ListedDeadLetter]] = []
        size = 0
        while partition < len(self._readers) and len(found) <= limit and size < PART_BYTES:
            wanted = limit + 1 - len(found)
            kept = self._readers[partition].dead_letters(choice, wanted, after, PART_BYTES)
            for one in kept:
                dead_letter = _listed(partition, one)
                found.append((partition, one.id, dead_letter))
                size += len(dead_letter.event_json or b"")
            whole = len(kept) < wanted and sum(len(one.event) for one in kept) < PART_BYTES
            after = 0 if whole else kept[-1].id
            partition += whole
        more = len(found) > limit or partition < len(self._readers)
        found = found[:limit]
        dead_letters = self._named([dead_letter for _, _, dead_letter in found])
        return SubscriptionPage(
            dead_letters, f"{found[-1][0]}-{found[-1][1]}" if more and found else None
        )

    def dead_letter(self, id_: str, namespace: str = DEFAULT_NAMESPACE) -> ListedDeadLetter:
        """Return the kept dead letter with this id.

        Raises:
            NotFoundError: It does not exist in this namespace, or not any more.
        """
        found = _CURSOR.fullmatch(id_)
        if found is not None and int(found[1]) < len(self._readers):
            partition, number = int(found[1]), int(found[2])
            choice = LetterChoice(letters_of(namespace), ids=(number,))
            kept = self._readers[partition].dead_letters(choice, 1, 0, PART_BYTES)
            if kept:
                return self._named([_listed(partition, kept[0])])[0]
        raise NotFoundError("there is no kept dead letter with this id")

    def _named(self, dead_letters: list[ListedDeadLetter]) -> list[ListedDeadLetter]:
        names = self._store.route_names({dead_letter.route for dead_letter in dead_letters})
        return [one._replace(name=names.get(one.route)) for one in dead_letters]

    def _choice(self, selection: DeadLetterSelection) -> LetterChoice:
        if selection.subscription is None:
            route = letters_of(selection.namespace, selection.route or "")
        else:
            route = self._route(selection)
        return LetterChoice(route, selection.since_ms, selection.until_ms)

    def _route(self, selection: DeadLetterSelection) -> str:
        """Uid of the selected route, or ``letters_of`` its namespace.

        Raises:
            NotFoundError: It does not exist in the namespace.
        """
        namespace = selection.namespace
        if selection.subscription is not None:
            return self._store.find(selection.subscription, namespace).uid
        if selection.route is None:
            return letters_of(namespace)
        name = self._store.route_names([selection.route]).get(selection.route)
        if name is None or name.namespace != namespace:
            raise NotFoundError("there is no route with this uid")
        return selection.route

    def ask(
        self,
        kind: DemandKind,
        selection: DeadLetterSelection,
        run: str | None,
        details: DemandDetails,
    ) -> Demand:
        """Demand that dead letters are sent again, or deleted; idempotent within a run.

        Raises:
            NotFoundError: The subscription or route does not exist in the namespace.
            ConflictError: The run has another demand.
            RequestError: Too many demands lately.
        """
        return self.runs.ask(kind, self._route(selection), run, selection.namespace, details)


def _listed(partition: int, kept: KeptDeadLetter) -> ListedDeadLetter:
    failure = kept.dead_letter.failure
    return ListedDeadLetter(
        f"{partition}-{kept.id}",
        kept.dead_letter.key.route,
        None,
        kept.dead_letter.kept_ms,
        dataclasses.replace(failure, dest=shown_uri(failure.dest)),
        _event_json(kept.event),
    )


def _event_json(kept: bytes) -> bytes | None:
    """The event of a dead letter in the JSON format; None where its bytes are damaged."""
    try:
        (event,) = event_record.decode(kept)
    except (EventError, ValueError):
        return None  # the list shows the others
    return json_format.encode(event)


def _read_cursor(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        message = "this cursor did not come from a Link header of this server"
        raise ResourceError([Fault("cursor", "value", message)])
    return int(found[1]), int(found[2])
