"""Contract suite of ``NewestTargets`` and ``RouteHistory``: run ``CHECKS`` over each back end.

``NewestTargets`` gives the current targets of routes and the operators' requests; ``RouteHistory``
restores changes that a log may have lost. Called by tests here, and by those of further back ends.
"""

import time
from collections.abc import Callable
from typing import Protocol

from distributary.core.demand import DemandKind
from distributary.partitions.ports import NewestTargets
from distributary.partitions.routes import RouteHistory

__all__ = ["CHECKS", "Resources"]


class Resources(Protocol):
    """The resources under test, as their writer sees them."""

    def look(self) -> tuple[NewestTargets, RouteHistory]:
        """Returns the ports of a new owner, which has not read anything yet."""
        ...

    def put(self, route: str, uri: str, *, types: tuple[str, ...] = ()) -> None:
        """Create or replace the resource of *route*, with the sink *uri*.

        Counts as a change of the route if it is new or its *types* differ, and may otherwise.
        """
        ...

    def delete(self, route: str) -> None:
        """Delete the resource: a change of the route."""
        ...

    def ask(self, kind: DemandKind, route: str) -> None:
        """Make a request to the owners."""
        ...

    def halt(self, route: str) -> None:
        """Pause the deliveries of *route*, which exists."""
        ...

    def unhalt(self, route: str) -> None:
        """Resume them."""
        ...

    def append(self) -> None:
        """Append all changes so far to each partition of the log."""
        ...


NEWS_S_MAX = 30.0
"""Longest wait for the sign of a change: back ends take a quarter of a second, and the machine may
be busy."""

A, B = "http://127.0.0.1:9/a", "http://127.0.0.1:9/b"


def _sink(targets: NewestTargets, route: str) -> str | None:
    target = targets.get(route)
    return None if target is None else target.sink.uri


def _wait_for_news(targets: NewestTargets) -> None:
    """Wait for the sign of a change, which a back end may see some time after it."""
    deadline_s = time.monotonic() + NEWS_S_MAX
    while not targets.may_have_news():
        assert time.monotonic() < deadline_s, "a change gave no sign"
        time.sleep(0.01)


def check_nothing_is_there_at_first(made: Resources) -> None:
    """No resource, no change, no demand."""
    targets, history = made.look()
    targets.refresh()
    assert (targets.get("r"), targets.demands(0), targets.changed_uris()) == (None, [], [])
    assert targets.sees(0)
    assert not targets.sees(1)
    assert (history.last_seq(), history.newest_seq(), history.between(0, 9)) == (0, 0, [])


def check_resources_are_seen_when_they_are_looked_for(made: Resources) -> None:
    """Changes are visible only after a refresh, so between two turns of the owner's loop."""
    targets, _ = made.look()
    targets.refresh()
    made.put("r", A)
    assert _sink(targets, "r") is None
    assert targets.refresh()
    assert _sink(targets, "r") == A
    assert targets.sees(1)
    assert not targets.refresh()
    assert made.look()[0].get("r") is None


def check_reading_and_taking_in_are_apart(made: Resources) -> None:
    """Reading blocks, in a thread; applying is quick, on the loop."""
    targets, _ = made.look()
    made.put("r", A)
    take = targets.read()
    made.put("r", B)
    assert take is not None
    assert _sink(targets, "r") is None
    take()
    assert _sink(targets, "r") == A
    take = targets.read()
    assert take is not None
    take()
    assert _sink(targets, "r") == B
    assert targets.read() is None


def check_a_change_is_never_overlooked(made: Resources) -> None:
    """Who asks cheaply first, and reads only where news are possible, misses nothing."""
    targets, _ = made.look()
    for sink in (A, B, A, B):
        made.put("r", sink)
        _wait_for_news(targets)
        take = targets.read()
        assert take is not None
        take()
        assert _sink(targets, "r") == sink


def check_a_target_stands_until_its_resource_changes(made: Resources) -> None:
    """Transports use its identity; a change of another resource does not replace it."""
    targets, _ = made.look()
    made.put("r", A)
    made.put("q", A)
    targets.refresh()
    one, other = targets.get("r"), targets.get("q")
    assert targets.get("r") is one
    made.put("r", B)
    targets.refresh()
    new = targets.get("r")
    assert new is not None
    assert one is not None
    assert new.revision > one.revision
    assert targets.get("q") is other


def check_sinks_that_a_route_has_left_are_told_once(made: Resources) -> None:
    """Tasks queued there may need another queue; a route never looked up has none."""
    targets, _ = made.look()
    made.put("used", A)
    made.put("never asked for", A + "2")
    targets.refresh()
    assert _sink(targets, "used") == A
    assert targets.changed_uris() == []
    made.put("used", B)
    made.put("never asked for", B)
    targets.refresh()
    assert targets.changed_uris() == [A]
    assert targets.changed_uris() == []
    assert _sink(targets, "used") == B


def check_a_deleted_resource_has_no_target(made: Resources) -> None:
    """The target ends when the log reaches the deletion, or when the deletion is read."""
    targets, _ = made.look()
    for route in ("met", "read"):
        made.put(route, A + route)
    targets.refresh()
    assert [_sink(targets, route) for route in ("met", "read")] == [A + "met", A + "read"]
    targets.end("met")
    assert (_sink(targets, "met"), _sink(targets, "read")) == (None, A + "read")
    assert targets.changed_uris() == [A + "met"]
    for route in ("met", "read"):
        made.delete(route)
    targets.refresh()
    assert (targets.get("met"), targets.get("read")) == (None, None)
    assert targets.changed_uris() == [A + "read"]
    assert targets.sees(4)


def check_it_is_known_whether_others_wait_too(made: Resources) -> None:
    """A sink may block the partition only where no route has another."""
    targets, _ = made.look()
    made.put("r", A)
    made.put("q", A)
    targets.refresh()
    assert targets.all_go_to(A)
    assert not targets.all_go_to(B)
    made.put("q", B)
    targets.refresh()
    assert not targets.all_go_to(A)
    made.delete("q")
    targets.refresh()
    assert targets.all_go_to(A)


def check_demands_are_numbered(made: Resources) -> None:
    """Each owner requests those that it has not seen, in order."""
    targets, _ = made.look()
    made.ask("redrive", "r")
    made.ask("purge", "")
    targets.refresh()
    first, second = targets.demands(0)
    assert [(d.kind, d.route) for d in (first, second)] == [("redrive", "r"), ("purge", "")]
    assert 0 < first.seq < second.seq
    assert first.run != second.run
    assert targets.demands(first.seq) == [second]
    assert targets.demands(second.seq) == []


def check_the_newest_demand_to_resume_a_route_stands(made: Resources) -> None:
    """Each owner sees it, also one that has seen an older one; a later owner sees it alone."""
    targets, _ = made.look()
    for route in ("r", "q"):
        made.ask("resume", route)
    targets.refresh()
    first, other = targets.demands(0)
    made.ask("resume", "r")
    targets.refresh()
    (newest,) = targets.demands(other.seq)
    assert (newest.kind, newest.route) == ("resume", "r")
    later, _ = made.look()
    later.refresh()
    assert later.demands(0) == [other, newest]
    assert first.seq < other.seq < newest.seq


def check_halted_routes_are_known(made: Resources) -> None:
    """Also to an owner that comes later; no target changes by it."""
    targets, _ = made.look()
    for route in ("r", "q"):
        made.put(route, A)
    targets.refresh()
    assert targets.halted() == frozenset()
    target = targets.get("r")
    made.halt("r")
    assert targets.halted() == frozenset()
    _wait_for_news(targets)
    assert targets.refresh()
    halted = targets.halted()
    assert halted == {"r"}
    made.put("q", B)
    targets.refresh()
    assert targets.halted() is halted
    assert targets.get("r") is target
    made.halt("q")
    later, _ = made.look()
    later.refresh()
    assert later.halted() == {"r", "q"}
    made.unhalt("r")
    for reader in (targets, later):
        assert reader.refresh()
        assert reader.halted() == {"q"}
    made.delete("q")
    last, _ = made.look()
    last.refresh()
    assert last.halted() == frozenset()  # else a run of it would wait for ever


def check_every_change_of_a_route_is_in_its_history(made: Resources) -> None:
    """By number, without gaps."""
    _, history = made.look()
    made.put("r", A)
    made.put("q", A)
    made.put("r", A, types=("com.example.t",))
    made.delete("q")
    made.append()
    changes = history.between(0, 9)
    told = [(change.seq, change.op, change.uid, change.types) for change in changes]
    assert told == [
        (1, "put", "r", ()),
        (2, "put", "q", ()),
        (3, "put", "r", ("com.example.t",)),
        (4, "delete", "q", ()),
    ]
    assert (history.last_seq(), history.newest_seq()) == (4, 4)
    assert history.between(1, 4) == changes[1:3]
    assert history.between(2, 3) == []


CHECKS: tuple[Callable[[Resources], None], ...] = (
    check_nothing_is_there_at_first,
    check_resources_are_seen_when_they_are_looked_for,
    check_reading_and_taking_in_are_apart,
    check_a_change_is_never_overlooked,
    check_a_target_stands_until_its_resource_changes,
    check_sinks_that_a_route_has_left_are_told_once,
    check_a_deleted_resource_has_no_target,
    check_it_is_known_whether_others_wait_too,
    check_demands_are_numbered,
    check_the_newest_demand_to_resume_a_route_stands,
    check_halted_routes_are_known,
    check_every_change_of_a_route_is_in_its_history,
)
"""Every check; each needs an empty store."""
