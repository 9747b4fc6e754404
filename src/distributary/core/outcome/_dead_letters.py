"""Kept dead letters within budgets: the oldest are given up first, and reported.

Of the whole budget, those of the namespace that keeps most: none pushes out what others keep.

Called only by the delivery store, inside its transactions. Hides the normalization: the event of
a record is stored once for any number of subscriptions that missed it, and a sink's answer once for
each subscription. A subscription is charged for each event, and for each answer once.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.flow import DoneKey
from distributary.core.outcome import _dead_letter_tables as t
from distributary.core.outcome._letter_choice import oldest, selects
from distributary.core.outcome._letter_events import split
from distributary.core.outcome._slices import NAMES_MAX, slices
from distributary.core.outcome.dead_letter import (
    CLOCK_MS_MIN,
    Budgets,
    DeadLetter,
    Failure,
    GivenUp,
    given_up_first,
    letters_of,
)

UNBUDGETED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Events of a flush that are inserted before the budgets are kept: the file grows by no more beyond
them, and a flush may bring ten times as much. Not each statement, since a look at the budgets goes
through all routes."""
DATED_COUNT: Final = 5_000
"""Undated dead letters that get a date at once: some 20 ms."""


class DeadLetters:
    """The kept dead letters of one partition.

    Args:
        partition: Partition number.
        budgets: Limits; what exceeds them is given up. May be set anew.
    """

    def __init__(self, partition: int, budgets: Budgets) -> None:
        self._partition = partition
        self.budgets = budgets
        self._counted = False
        self._bytes = 0
        self._bytes_of: dict[int, int] = defaultdict(int)
        self._namespace_of: dict[int, str | None] = {}  # of routes, those that were asked for

    def forget_counts(self) -> None:
        """Count again before the next change: a transaction was rolled back."""
        self._counted = False
        self._namespace_of = {}

    def _count(self, connection: Connection) -> None:
        """Sum the bytes of the dead letters, in all and by route."""
        if self._counted:
            return
        mine = t.dead_letter.c.partition == self._partition
        letter = t.dead_letter.c
        cost = sa.func.sum(t.body.c.size) + sa.func.count() * t.DEAD_LETTER_BYTES
        of_letters = (
            sa.select(letter.route, cost)
            .join(t.body, t.body.c.id == letter.body)
            .where(mine)
            .group_by(letter.route)
        )
        causes = sa.select(letter.route, letter.cause).where(mine).distinct().subquery()
        of_causes = (
            sa.select(causes.c.route, sa.func.sum(t.cause.c.size))
            .join(t.cause, t.cause.c.id == causes.c.cause)
            .group_by(causes.c.route)
        )
        self._bytes_of = defaultdict(int)
        for query in (of_letters, of_causes):
            for route, size in connection.execute(query):
                self._bytes_of[route] += int(size)
        count = connection.execute(sa.select(sa.func.count()).where(mine)).scalar_one()
        self._bytes = count * t.DEAD_LETTER_BYTES
        for table in (t.body, t.cause):
            size = sa.select(sa.func.coalesce(sa.func.sum(table.c.size), 0))
            self._bytes += int(
                connection.execute(size.where(table.c.partition == self._partition)).scalar_one()
            )
        self._counted = True

    # -- keeping ------------------------------------------------------------------------------

    def put(self, connection: Connection, dead_letters: Sequence[DeadLetter]) -> list[GivenUp]:
        """Keep *dead_letters*, one a match; return what was given up for them, oldest first."""
        self._count(connection)
        given_up: dict[int, int] = defaultdict(int)
        for part in _parts(sorted(dead_letters, key=lambda dead_letter: dead_letter.kept_ms)):
            for some in slices(part):
                self._put(connection, some)
            self._keep_to_bytes(connection, given_up)
        return self._told(connection, given_up, "kept-bytes")

    def move(self, connection: Connection, dead_letters: Sequence[DeadLetter]) -> None:
        """Keep *dead_letters* of an older store; budgets apply with the next ``put``."""
        self._count(connection)
        for some in slices(dead_letters):
            self._put(connection, some)

    def _put(self, connection: Connection, dead_letters: Sequence[DeadLetter]) -> None:
        dead_letters = list({dead_letter.key: dead_letter for dead_letter in dead_letters}.values())
        parts = [split(dead_letter.event) for dead_letter in dead_letters]
        routes = self.route_ids(
            connection, {letter.key.route: letter.namespace for letter in dead_letters}
        )
        self._drop_same(connection, dead_letters, routes)
        bodies, _ = self._share(connection, t.body, [_body_values(body) for body, _ in parts])
        why = [
            _cause_values(routes[dead_letter.key.route], dead_letter.failure, marks)
            for dead_letter, (_, marks) in zip(dead_letters, parts, strict=True)
        ]
        causes, new_causes = self._share(connection, t.cause, why)
        rows = [
            {
                "partition": self._partition,
                "offset": dead_letter.key.offset,
                "index": dead_letter.key.index,
                "route": routes[dead_letter.key.route],
                "checksum": dead_letter.checksum,
                "body": body,
                "cause": cause,
                "kept_ms": dead_letter.kept_ms,
            }
            for dead_letter, body, cause in zip(dead_letters, bodies, causes, strict=True)
        ]
        connection.execute(t.dead_letter.insert(), rows)
        self._bytes += len(rows) * t.DEAD_LETTER_BYTES
        for row, (body_bytes, _), cause in zip(rows, parts, why, strict=True):
            self._bytes_of[row["route"]] += t.DEAD_LETTER_BYTES + len(body_bytes)
            if cause["digest"] in new_causes:
                new_causes.discard(cause["digest"])
                self._bytes_of[row["route"]] += cause["size"]

    def route_ids(
        self, connection: Connection, namespaces: Mapping[str, str | None]
    ) -> dict[str, int]:
        """Return the number by which dead letters refer to each route, of a namespace if known."""
        wanted = list(namespaces)
        values = [
            {"partition": self._partition, "route": name, "namespace": namespace}
            for name, namespace in namespaces.items()
        ]
        insert_absent(connection, t.route, values)
        query = sa.select(t.route.c.route, t.route.c.id).where(
            t.route.c.partition == self._partition, t.route.c.route.in_(wanted)
        )
        return {found.route: found.id for found in connection.execute(query)}

    def _share(
        self, connection: Connection, table: sa.Table, values: list[dict[str, Any]]
    ) -> tuple[list[int], set[bytes]]:
        """Insert each of *values* into *table* once.

        Returns:
            Their ids, and the digests of those that were not there.
        """
        by_digest = {value["digest"]: value for value in values}
        query = sa.select(table.c.digest, table.c.id).where(
            table.c.partition == self._partition, table.c.digest.in_(list(by_digest))
        )
        ids = {bytes(found.digest): found.id for found in connection.execute(query)}
        new = [
            {"partition": self._partition, **value}
            for digest, value in by_digest.items()
            if digest not in ids
        ]
        if new:
            connection.execute(table.insert(), new)
            self._bytes += sum(value["size"] for value in new)
            ids = {bytes(found.digest): found.id for found in connection.execute(query)}
        return [ids[value["digest"]] for value in values], {value["digest"] for value in new}

    def _drop_same(
        self, connection: Connection, dead_letters: Sequence[DeadLetter], routes: dict[str, int]
    ) -> None:
        """Delete earlier copies of *dead_letters*: a flush was repeated."""
        keys = {
            (dead_letter.key.offset, dead_letter.key.index, routes[dead_letter.key.route]): 0
            for dead_letter in dead_letters
        }
        letter = t.dead_letter.c
        query = sa.select(
            letter.offset, letter.index, letter.route, letter.id, letter.body, letter.cause
        ).where(
            letter.partition == self._partition,
            letter.route.in_(list(routes.values())),
            letter.offset.in_([offset for offset, _, _ in keys]),
        )
        same = [
            {"id": id_, "route": route, "body": body, "cause": cause}
            for offset, index, route, id_, body, cause in connection.execute(query)
            if (offset, index, route) in keys
        ]
        self._delete(connection, same)

    # -- giving up ----------------------------------------------------------------------------

    def _keep_to_bytes(self, connection: Connection, given_up: dict[int, int]) -> None:
        """Give up the oldest beyond each budget, and add to *given_up*."""
        over = [
            route for route, size in self._bytes_of.items() if size > self.budgets.route_bytes_max
        ]
        for route in over:
            while self._bytes_of[route] > self.budgets.route_bytes_max:
                found = self._oldest(connection, t.dead_letter.c.route == route)
                if not found:
                    break
                excess = self._bytes_of[route] - self.budgets.route_bytes_max
                given_up[route] += self._give_up(connection, found, excess)
        self._keep_to_namespaces(connection, given_up)
        self._keep_to_all(connection, given_up)

    def _keep_to_all(self, connection: Connection, given_up: dict[int, int]) -> None:
        """Give up the oldest of whichever namespace keeps most, and add to *given_up*."""
        while self._bytes > self.budgets.bytes_max:
            excess = self._bytes - self.budgets.bytes_max
            namespace, step = given_up_first(self._kept_of_namespaces(connection), excess)
            whose = t.route.c.namespace
            mine = sa.and_(
                t.route.c.partition == self._partition,
                whose.is_(None) if namespace is None else whose == namespace,
            )
            routes = sa.select(t.route.c.id).where(mine)
            found = self._oldest(connection, t.dead_letter.c.route.in_(routes))
            if not found:  # a route that shared a cause, which earlier versions allowed
                self.forget_counts()
                break
            for row in self._some(found, step):
                given_up[row["route"]] += 1
            self._give_up(connection, found, step)

    def _kept_of_namespaces(self, connection: Connection) -> dict[str | None, int]:
        """Return the bytes that each namespace keeps; None is that of routes with none noted."""
        if not self._namespace_of.keys() >= self._bytes_of.keys():
            query = sa.select(t.route.c.id, t.route.c.namespace)
            query = query.where(t.route.c.partition == self._partition)
            self._namespace_of = {row.id: row.namespace for row in connection.execute(query)}
        kept: dict[str | None, int] = defaultdict(int, {None: 0})
        for route, size in self._bytes_of.items():
            kept[self._namespace_of.get(route)] += size
        return kept

    def _keep_to_namespaces(self, connection: Connection, given_up: dict[int, int]) -> None:
        """Give up the oldest of each namespace beyond its quota, and add to *given_up*."""
        for namespace, routes in self._routes_of_namespaces(connection).items():
            limit = self.budgets.namespace_bytes_max(namespace)
            if namespace is None:  # of an earlier version, and not named yet
                continue
            while limit:
                excess = sum(self._bytes_of[route] for route in routes) - limit
                if excess <= 0:
                    break
                letters = letters_of(namespace)
                found = self._oldest(connection, t.dead_letter.c.route.in_(self._selected(letters)))
                if not found:
                    break
                for row in self._some(found, excess):
                    given_up[row["route"]] += 1
                self._give_up(connection, found, excess)

    def _routes_of_namespaces(self, connection: Connection) -> dict[str | None, list[int]]:
        """Numbers of the routes with dead letters, by namespace; none where nobody has a quota."""
        quotas = self.budgets.quotas
        if not any(one.dead_letter_bytes for one in (quotas.others, *quotas.named.values())):
            return {}
        query = sa.select(t.route.c.id, t.route.c.namespace)
        query = query.where(t.route.c.partition == self._partition)
        found: dict[str | None, list[int]] = defaultdict(list)
        for row in connection.execute(query):
            found[row.namespace].append(row.id)
        return found

    def _give_up(self, connection: Connection, found: list[Any], excess: int) -> int:
        some = self._some(found, excess)
        self._delete(connection, some)
        return len(some)

    def _some(self, found: list[Any], excess: int) -> list[Any]:
        """Return the first of *found* that together may free *excess* bytes; at least one."""
        freed = 0
        causes: set[int] = set()
        for count, row in enumerate(found, 1):
            freed += t.DEAD_LETTER_BYTES + row["size"]
            if row["cause"] not in causes:
                causes.add(row["cause"])
                freed += row["cause_size"]
            if freed >= excess:
                return found[:count]
        return found

    @staticmethod
    def _is_old(row: Any, oldest_ms: int) -> bool:
        return bool(CLOCK_MS_MIN <= row["kept_ms"] < oldest_ms)

    def _oldest(self, connection: Connection, which: Any, limit: int = NAMES_MAX) -> list[Any]:
        query = (
            sa.select(t.dead_letter, t.body.c.size, t.cause.c.size.label("cause_size"))
            .join(t.body, t.body.c.id == t.dead_letter.c.body)
            .join(t.cause, t.cause.c.id == t.dead_letter.c.cause)
            .where(t.dead_letter.c.id.in_(oldest(connection, self._partition, which, limit)))
            .order_by(t.dead_letter.c.id)
        )
        return list(connection.execute(query).mappings())

    def expire(self, connection: Connection, now_ms: int) -> list[GivenUp]:
        """Give up a slice of those older than the age budget; empty: there are none.

        The age of those that were kept while the clock was plainly wrong begins now. While it
        still is, as by *now_ms* (wall clock, milliseconds), none is too old.
        """
        if now_ms < CLOCK_MS_MIN:
            return []
        self._count(connection)
        letter = t.dead_letter.c
        undated = sa.select(letter.id).where(letter.partition == self._partition, t.UNDATED)
        some = letter.id.in_(undated.limit(DATED_COUNT))
        connection.execute(t.dead_letter.update().where(some).values(kept_ms=now_ms))
        oldest_ms = now_ms - int(self.budgets.age_max_s * 1000)
        if not any(self._is_old(row, oldest_ms) for row in self._oldest(connection, sa.true(), 1)):
            return []
        found = self._oldest(connection, sa.true())
        old = [row for row in found if self._is_old(row, oldest_ms)]
        given_up: dict[int, int] = defaultdict(int)
        for row in old:
            given_up[row["route"]] += 1
        self._delete(connection, old)
        return self._told(connection, given_up, "kept-age")

    def _told(self, connection: Connection, counts: dict[int, int], reason: str) -> list[GivenUp]:
        if not counts:
            return []
        names: dict[int, str] = {}
        for some in slices(list(counts)):
            query = sa.select(t.route.c.id, t.route.c.route).where(t.route.c.id.in_(some))
            names |= {found.id: found.route for found in connection.execute(query)}
        return [GivenUp(names[route], count, reason) for route, count in counts.items()]

    def take(self, connection: Connection, keys: Sequence[DoneKey]) -> None:
        """Delete the dead letters of these matches."""
        self._count(connection)
        for some in slices(keys):
            routes = self.route_ids(connection, dict.fromkeys(key.route for key in some))
            self._drop_same(
                connection,
                [DeadLetter(key, 0, Failure("", ""), b"", 0) for key in some],
                routes,
            )

    def newest(self, connection: Connection) -> int:
        """Return the number of the newest dead letter; 0: there is none."""
        newest = sa.select(sa.func.coalesce(sa.func.max(t.dead_letter.c.id), 0))
        mine = t.dead_letter.c.partition == self._partition
        return int(connection.execute(newest.where(mine)).scalar_one())

    def _selected(self, selection: str) -> sa.Select[tuple[int]]:
        """Select the numbers of the routes of *selection*: a uid, or ``letters_of`` a namespace."""
        mine = t.route.c.partition == self._partition
        return sa.select(t.route.c.id).where(mine, selects(selection))

    def name(self, connection: Connection, namespaces: Mapping[str, str]) -> None:
        """Note the namespaces of routes: an earlier version did not."""
        self._namespace_of = {}
        for route, namespace in namespaces.items():
            mine = sa.and_(t.route.c.partition == self._partition, t.route.c.route == route)
            unknown = t.route.c.namespace.is_(None)
            connection.execute(t.route.update().where(mine, unknown).values(namespace=namespace))

    def drop_route(self, connection: Connection, name: str) -> bool:
        """Delete a slice of the dead letters of a route; False: there are none left."""
        self._count(connection)
        mine = sa.and_(t.route.c.partition == self._partition, t.route.c.route == name)
        route = connection.execute(sa.select(t.route.c.id).where(mine)).scalar()
        if route is None:
            return False
        found = self._oldest(connection, t.dead_letter.c.route == route)
        self._delete(connection, found)
        if found:
            return True
        connection.execute(t.route.delete().where(t.route.c.id == route))
        self._bytes_of.pop(route, None)
        self._namespace_of.pop(route, None)
        return False

    def _delete(self, connection: Connection, rows: Sequence[Any]) -> None:
        """Delete these dead letters, and the events and causes that no other one shares."""
        if not rows:
            return
        connection.execute(
            t.dead_letter.delete().where(t.dead_letter.c.id.in_([row["id"] for row in rows]))
        )
        bodies, _ = self._let_go(connection, t.body, {row["body"] for row in rows})
        causes, unused = self._let_go(connection, t.cause, {row["cause"] for row in rows})
        for row in rows:
            self._bytes_of[row["route"]] -= t.DEAD_LETTER_BYTES + bodies[row["body"]]
        for cause, route in {row["cause"]: row["route"] for row in rows}.items():
            if cause in unused:
                self._bytes_of[route] -= causes[cause]
        self._bytes -= len(rows) * t.DEAD_LETTER_BYTES

    def _let_go(
        self, connection: Connection, table: sa.Table, ids: set[int]
    ) -> tuple[dict[int, int], set[int]]:
        """Delete those of *ids* that no dead letter refers to.

        Returns:
            The sizes of all, and which were deleted.
        """
        column = t.dead_letter.c[table.name.removeprefix("letter_")]
        shared = sa.exists().where(column == table.c.id)
        query = sa.select(table.c.id, table.c.size, shared).where(table.c.id.in_(ids))
        found = connection.execute(query).all()
        alone = [id_ for id_, _, is_shared in found if not is_shared]
        if alone:
            connection.execute(table.delete().where(table.c.id.in_(alone)))
        self._bytes -= sum(size for _, size, is_shared in found if not is_shared)
        return {id_: size for id_, size, _ in found}, set(alone)

    # -- reading ------------------------------------------------------------------------------

    def routes(self, connection: Connection) -> dict[str, str | None]:
        """Return the routes that have dead letters, or had some, with their namespaces."""
        query = sa.select(t.route.c.route, t.route.c.namespace)
        found = connection.execute(query.where(t.route.c.partition == self._partition))
        return {row.route: row.namespace for row in found}


def _parts(dead_letters: Sequence[DeadLetter]) -> Iterator[Sequence[DeadLetter]]:
    """Yield *dead_letters* in order, some ``UNBUDGETED_BYTES_MAX`` of events at a time."""
    first = size = 0
    for end, dead_letter in enumerate(dead_letters, 1):
        size += len(dead_letter.event)
        if size >= UNBUDGETED_BYTES_MAX:
            yield dead_letters[first:end]
            first, size = end, 0
    yield dead_letters[first:]


def _digest(*parts: object) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(raw).to_bytes(8))
        digest.update(raw)
    return digest.digest()


def _body_values(event: bytes) -> dict[str, Any]:
    return {"digest": _digest(event), "size": len(event), "event": event}


def _cause_values(route: int, failure: Failure, marks: str) -> dict[str, Any]:
    """The row of a cause: of one route, so that its bytes are those of one namespace."""
    texts = failure.reason, failure.dest, failure.data or "", marks
    return {
        "digest": _digest(route, failure.reason, failure.dest, failure.code, failure.data, marks),
        "size": sum(map(len, texts)),
        "reason": failure.reason,
        "error_dest": failure.dest,
        "error_code": failure.code,
        "error_data": failure.data,
        "marks": marks,
    }


def insert_absent(connection: Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Insert those of *rows* that do not exist, in both dialects."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - only when it is used
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]  # noqa: PLC0415
    connection.execute(insert(table).on_conflict_do_nothing(), rows)
