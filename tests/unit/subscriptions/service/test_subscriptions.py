"""The operations, and what they promise about the log."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from distributary.core.errors import (
    ConflictError,
    LogUnavailableError,
    NotFoundError,
    RequestError,
    ResourceError,
    StoreError,
)
from distributary.core.flow import decode_route
from distributary.core.policy import DeliveryPolicy
from distributary.subscriptions.store.leader import BATCH_MAX, WAITING_MAX
from distributary.subscriptions.store.stored import ChangePendingError, Precondition, Put
from kit.memory_routes import MemoryRouteAppender


def tags(*texts: str) -> frozenset[str]:
    """Entity tags."""
    return frozenset(texts)


def wait_until(runner: asyncio.Runner, holds: Callable[[], bool]) -> None:
    """Let the loop turn until *holds*; what never does fails the test."""

    async def wait() -> None:
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110 - the service offers no event, and needs none
                await asyncio.sleep(0)

    runner.run(wait())


@pytest.fixture
def half_made(store, spec):
    """Two changes in the store that no log has: what a crash leaves."""
    store.apply([Put("a", spec(), "u1"), Put("b", spec(), "u2")], 5)


def test_create_answers_once_its_record_stands_in_every_partition(
    runner, service, appender, proposal
):
    """Promise 5: every event accepted from then on is judged by it."""
    created = runner.run(service.create(proposal()))
    for partition in appender.partitions:
        assert [decode_route(body).uid for body in partition] == [created.uid]


def test_create_ignores_a_proposed_id(runner, service, proposal):
    """Subscriptions API, id: MUST be ignored on a subscribe operation."""
    created = runner.run(service.create(proposal(id="mine")))
    assert created.id != "mine"
    assert runner.run(service.retrieve(created.id)) == created


def test_replace_creates_and_then_replaces(runner, service, proposal, clock):
    """PUT is an upsert."""
    first = runner.run(service.replace("mine", proposal(id="ignored")))
    clock.now_ms += 7
    second = runner.run(service.replace("mine", proposal(id="mine", types=["x"])))
    assert (first.created, second.created) == (True, False)
    assert second.subscription.revision == 2
    assert second.subscription.updated_ms == first.subscription.updated_ms + 7
    assert second.subscription.to_json()["types"] == ["x"]


def test_a_replace_of_the_sink_alone_appends_a_record_too(runner, service, appender, proposal):
    """The log knows every revision."""
    runner.run(service.replace("mine", proposal()))
    runner.run(service.replace("mine", proposal(sink="http://127.0.0.1/other")))
    assert [record.revision for record in appender.applied(1)] == [1, 2]


@pytest.mark.parametrize("claimed", ["other", 7, ["mine"]])
def test_an_update_with_another_id_is_invalid(runner, service, proposal, claimed):
    """An id never changes (decision 2)."""
    runner.run(service.replace("mine", proposal()))
    with pytest.raises(ResourceError) as caught:
        runner.run(service.replace("mine", proposal(id=claimed)))
    assert caught.value.faults[0].path == "$.id"


@pytest.mark.parametrize("id_", ["", "a/b", "a b", ".", "..", "ü", "a" * 129, "a\n"])
def test_an_id_that_cannot_be_one_is_refused_on_put_and_unknown_elsewhere(
    runner, service, proposal, id_
):
    """Ids stand in paths and logs."""
    with pytest.raises(ResourceError):
        runner.run(service.replace(id_, proposal()))
    with pytest.raises(NotFoundError):
        runner.run(service.retrieve(id_))
    with pytest.raises(NotFoundError):
        runner.run(service.delete(id_))


def test_the_longest_id_is_taken(runner, service, proposal):
    """A limit is the last good value."""
    assert runner.run(service.replace("A-z.0_9" + "a" * 121, proposal())).created


def test_delete_returns_what_stood_and_ends_the_route(runner, service, appender, proposal):
    """Decision 23; the record stands everywhere when the call answers."""
    created = runner.run(service.create(proposal(types=["x"])))
    assert runner.run(service.delete(created.id)) == created
    assert [record.op for record in appender.applied(0)] == ["put", "delete"]
    with pytest.raises(NotFoundError):
        runner.run(service.retrieve(created.id))
    with pytest.raises(NotFoundError):
        runner.run(service.delete(created.id))


def test_preconditions_are_checked_with_the_change(runner, service, proposal):
    """Two writers that read the same revision: the second is told."""
    first = runner.run(service.replace("mine", proposal())).subscription
    stale = Precondition(if_match=tags(first.etag))
    runner.run(service.replace("mine", proposal(types=["x"]), stale))
    with pytest.raises(ConflictError):
        runner.run(service.replace("mine", proposal(types=["y"]), stale))
    with pytest.raises(ConflictError):
        runner.run(service.delete("mine", stale))
    absent = Precondition(if_none_match=tags("*"))
    with pytest.raises(ConflictError):
        runner.run(service.replace("mine", proposal(), absent))
    runner.run(service.delete("mine", Precondition(if_match=tags("*"))))


def test_of_many_concurrent_conditional_updates_one_wins(runner, service, proposal):
    """PATCH requests that race: lost updates cannot happen."""
    first = runner.run(service.replace("mine", proposal())).subscription
    condition = Precondition(if_match=tags(first.etag))

    async def race():
        tries = [service.replace("mine", proposal(), condition) for _ in range(20)]
        return await asyncio.gather(*tries, return_exceptions=True)

    outcomes = runner.run(race())
    assert sum(isinstance(outcome, ConflictError) for outcome in outcomes) == 19


def test_concurrent_creates_share_appends(runner, service, appender, proposal):
    """A thousand creates cost a handful of fsyncs."""

    async def many():
        return await asyncio.gather(*(service.create(proposal()) for _ in range(200)))

    created = runner.run(many())
    assert len({found.uid for found in created}) == 200
    assert appender.calls <= 4
    assert appender.partitions[0] == appender.partitions[1]
    assert [record.seq for record in appender.applied(0)] == list(range(1, 201))


def test_a_log_that_refuses_leaves_the_change_pending(runner, make_service, appender, proposal):
    """The caller is told that it is stored and must not be repeated."""
    service = make_service()
    appender.failing = True
    with pytest.raises(ChangePendingError) as caught:
        runner.run(service.create(proposal()))
    assert runner.run(service.retrieve(caught.value.id)).id == caught.value.id
    assert service.behind() is not None


def test_while_the_log_refuses_nothing_more_is_stored(runner, make_service, appender, proposal):
    """Clients that try again do not pile up subscriptions."""
    service = make_service()
    appender.failing = True
    with pytest.raises(ChangePendingError):
        runner.run(service.create(proposal()))
    for _ in range(3):
        with pytest.raises(LogUnavailableError) as caught:
            runner.run(service.create(proposal()))
        assert not isinstance(caught.value, ChangePendingError)
    assert len(runner.run(service.query(10)).items) == 1


def test_pending_changes_go_first_when_the_log_is_back(runner, make_service, appender, proposal):
    """No partition ever sees changes in another order, though one took some of them before."""
    service = make_service()
    runner.run(service.replace("a", proposal()))
    appender.failing, appender.partial = True, 1
    with pytest.raises(ChangePendingError):
        runner.run(service.replace("b", proposal()))
    appender.failing = False
    runner.run(service.replace("c", proposal()))
    assert service.behind() is None
    assert len(appender.partitions[0]) == 4  # one record twice
    for partition in (0, 1):
        assert [record.seq for record in appender.applied(partition)] == [1, 2, 3]


def test_pending_changes_are_rolled_forward_without_a_request(
    runner, make_service, appender, proposal
):
    """Nobody has to ask: the loop tries again by itself."""
    service = make_service(retry_wait_s=0.0)
    appender.failing = True
    with pytest.raises(ChangePendingError):
        runner.run(service.create(proposal()))
    appender.failing = False

    wait_until(runner, lambda: service.behind() is None)
    assert [record.seq for record in appender.applied(1)] == [1]


@pytest.mark.usefixtures("half_made")
def test_a_start_rolls_forward_what_a_crash_left(runner, make_service, appender, proposal):
    """Stored, not appended: the next process finishes it before it takes changes."""
    service = make_service()
    assert [record.uid for record in appender.applied(0)] == ["u1", "u2"]
    runner.run(service.replace("c", proposal()))
    assert [record.seq for record in appender.applied(1)] == [1, 2, 3]


@pytest.mark.usefixtures("half_made")
def test_a_start_without_a_log_is_a_start_that_refuses_changes(
    runner, make_service, appender, proposal
):
    """Reading goes on; readiness says why changes do not."""
    appender.failing = True
    service = make_service()
    assert "told to fail" in str(service.behind())
    assert runner.run(service.retrieve("a")).uid == "u1"
    with pytest.raises(LogUnavailableError):
        runner.run(service.create(proposal()))


def test_an_invalid_proposal_never_reaches_the_store(runner, service, appender):
    """Nothing is numbered, nothing is appended."""
    with pytest.raises(ResourceError):
        runner.run(service.create({}))
    assert appender.calls == 0


def test_pages_cover_everything_once(runner, service, proposal):
    """The cursor of one part opens the next."""
    for n in range(5):
        runner.run(service.replace(f"s{n}", proposal()))
    seen, cursor = [], None
    while True:
        page = runner.run(service.query(2, cursor))
        seen += [item.id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ["s0", "s1", "s2", "s3", "s4"]


def test_a_full_last_page_has_no_cursor(runner, service, proposal):
    """Nobody is sent to an empty page."""
    for n in range(2):
        runner.run(service.replace(f"s{n}", proposal()))
    assert runner.run(service.query(2)).next_cursor is None


@pytest.mark.parametrize("cursor", ["", "!", "ü", "AA", "a" * 1001, "Li4v"])
def test_a_cursor_of_somebody_else_is_invalid(runner, service, cursor):
    """It is opaque, and it is checked."""
    with pytest.raises(ResourceError):
        runner.run(service.query(1, cursor))


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_limit_out_of_range_is_invalid(runner, service, limit):
    """One part of the list stays small."""
    with pytest.raises(ResourceError):
        runner.run(service.query(limit))


@pytest.mark.slow  # rendering the traceback
def test_a_bug_in_one_batch_does_not_end_the_others(runner, make_service, proposal):
    """The loop alone makes changes, so it goes on."""

    class Buggy(MemoryRouteAppender):
        broken = True

        async def append_routes(self, bodies):
            if self.broken:
                raise ZeroDivisionError
            await super().append_routes(bodies)

    log = Buggy()
    service = make_service(appender=log)
    with pytest.raises(ZeroDivisionError):
        runner.run(service.replace("a", proposal()))
    assert service.behind() is not None
    log.broken = False
    runner.run(service.replace("b", proposal()))
    assert [record.seq for record in log.applied(0)] == [1, 2]


def test_nothing_changes_before_store_and_log_agree(runner, make_service, store, proposal):
    """A number that the log has already would be passed over there, in silence."""

    class Unread(MemoryRouteAppender):
        away = True

        async def agree(self):
            if self.away:
                raise LogUnavailableError("the log cannot be read")

    log = Unread()
    service = make_service(appender=log, retry_wait_s=0.01)
    assert service.behind() == "the log cannot be read"
    with pytest.raises(LogUnavailableError):
        runner.run(service.create(proposal()))
    assert store.live_count() == 0
    log.away = False
    runner.run(service.create(proposal()))
    assert store.live_count() == 1


def test_a_store_that_fails_is_reported_and_tried_again(
    runner, make_service, store, proposal, monkeypatch
):
    """Nothing was stored, and the next change finds the loop alive."""
    service = make_service()

    def fail(*_args):
        raise StoreError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "apply", fail)
        with pytest.raises(StoreError):
            runner.run(service.create(proposal()))
    runner.run(service.create(proposal()))


@pytest.fixture
def unmarked(store, monkeypatch):
    """While this context is entered, no change can be marked as appended."""

    def fail(_seq):
        raise StoreError("disk full")

    @contextlib.contextmanager
    def entered():
        with monkeypatch.context() as patch:
            patch.setattr(store, "mark_appended", fail)
            yield

    return entered


def test_a_mark_that_fails_costs_one_more_append(runner, service, appender, proposal, unmarked):
    """The caller got its answer; readers pass over the second copy."""
    with unmarked():
        runner.run(service.replace("a", proposal()))
        wait_until(runner, lambda: service.behind() is not None)
    runner.run(service.replace("b", proposal()))
    assert len(appender.partitions[0]) == 3
    assert [record.seq for record in appender.applied(0)] == [1, 2]


def test_a_caller_that_goes_away_harms_nobody(runner, service, proposal):
    """Its change is made; others get their answers."""

    async def scene():
        gone = asyncio.create_task(service.replace("a", proposal()))
        await asyncio.sleep(0)
        gone.cancel()
        other = await service.replace("b", proposal())
        await asyncio.gather(gone, return_exceptions=True)
        return other

    assert runner.run(scene()).created
    assert runner.run(service.retrieve("a")).id == "a"


def test_a_closed_service_takes_no_changes(runner, make_service, proposal):
    """The server is stopping: try again elsewhere or later."""
    service = make_service()
    runner.run(service.close())
    with pytest.raises(RequestError) as caught:
        runner.run(service.create(proposal()))
    assert caught.value.request_code == "unavailable"


def test_what_waits_at_a_close_is_refused(runner, make_service, proposal):
    """Nobody waits for ever."""
    service = make_service()

    async def scene():
        waiting = [asyncio.create_task(service.create(proposal())) for _ in range(300)]
        await asyncio.sleep(0)
        await service.close()
        return await asyncio.gather(*waiting, return_exceptions=True)

    outcomes = runner.run(scene())
    refused = [outcome for outcome in outcomes if isinstance(outcome, RequestError)]
    assert len(refused) == 300 - BATCH_MAX  # the batch under way is finished


def test_only_so_many_changes_wait(runner, make_service, proposal, monkeypatch):
    """Beyond that callers are refused, and memory stays bounded."""
    monkeypatch.setattr("distributary.subscriptions.store.leader.WAITING_MAX", 3)
    assert WAITING_MAX > 3
    service = make_service()

    async def scene():
        tries = [service.create(proposal()) for _ in range(10)]
        return await asyncio.gather(*tries, return_exceptions=True)

    outcomes = runner.run(scene())
    assert sum(isinstance(outcome, RequestError) for outcome in outcomes) == 7


def test_changes_are_logged_without_secrets(runner, service, proposal, capsys):
    """One audit line a change: what, which, and its number."""
    body = proposal(protocolsettings={"headers": {"Authorization": "canary"}})
    created = runner.run(service.create(body))
    shown = capsys.readouterr()
    assert created.uid in shown.out + shown.err
    assert "canary" not in shown.out + shown.err


def test_the_delivery_of_a_spec_is_a_policy(spec):
    """Defaults of both rooms are the same (decision 21)."""
    assert spec().policy == DeliveryPolicy()
