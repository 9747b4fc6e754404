"""Which routes fail: what is noted, when it is told, what clears it."""

from types import SimpleNamespace

import pytest

from distributary.core.engine import failing as failing_module
from distributary.core.engine.failing import Failing
from distributary.core.errors import StoreError
from distributary.core.outcome import FailingRoutesFile, read_failing
from distributary.core.policy import Decision, Verdict
from distributary.partitions._failing import FailingFile

SINK = "http://sink.example/"
AGAIN = Verdict(Decision.RETRY, "status-503", 1.0)
FINAL = Verdict(Decision.DEAD_LETTER, "status-400")


class Stage:
    """Routes that fail, in a file that is written at once."""

    def __init__(self, path, clock, timers):
        self.path = path
        self.timers = timers
        self.clock = clock
        self.reports = []
        self.writes = 0
        self.error = None
        context = SimpleNamespace(
            clock=clock,
            failing=FailingRoutesFile(path),
            aside=self,
            warn=lambda event, fields: self.reports.append((event, fields)),
        )
        self.failing = Failing()
        self.file = FailingFile(context, self.failing)

    def failed(self, route, verdict, dest=SINK):
        self.failing.failed(route, verdict, dest, self.clock.wall_ms())

    def refused(self, route, dest=SINK):
        self.failing.refused(route, dest, self.clock.wall_ms())

    def run(self, work, done):
        self.writes += 1
        if self.error is None:
            work()
        done(self.error)

    def told(self, after_s=1.0):
        self.timers.advance(after_s)
        self.file.tick()
        return {row.route: row for row in read_failing(self.path)}


@pytest.fixture
def stage(tmp_path, clock, timers):
    """Nothing fails yet."""
    return Stage(tmp_path / "run" / "failing.json", clock, timers)


def test_nothing_is_written_while_nothing_fails(stage):
    """No file, and nothing to ask on the hot path."""
    assert stage.told() == {}
    assert not stage.path.exists()
    assert not stage.failing.any


def test_three_failures_in_a_row_are_told(stage):
    """With since when, how many, the last reason and where."""
    begun_ms = stage.clock.wall_ms()
    stage.failed("r", AGAIN)
    stage.failed("r", AGAIN)
    assert stage.told() == {}
    stage.failed("r", Verdict(Decision.RETRY, "timeout", 1.0))
    row = stage.told()["r"]
    assert (row.count, row.reason, row.dest) == (3, "timeout", SINK)
    assert (row.since_ms, row.last_ms - row.since_ms) == (begun_ms, 1_000)


def test_a_delivery_clears_them(stage):
    """The file says so a second later at most."""
    for _ in range(3):
        stage.failed("r", AGAIN)
    assert "r" in stage.told()
    stage.failing.delivered("r")
    assert not stage.failing.any
    assert stage.told() == {}
    assert stage.path.exists()


def test_a_final_failure_is_told_until_a_delivery_succeeds(stage):
    """However long nothing is sent, and by the next owner too: time heals no sink."""
    stage.failed("r", FINAL)
    assert "r" in stage.told()
    assert stage.told(86_400.0)["r"].count == 1
    heir = Stage(stage.path, stage.clock, stage.timers)
    assert "r" in heir.told()
    heir.failing.delivered("r")
    assert heir.told() == {}


def test_an_open_breaker_is_told_at_once(stage):
    """Another route's attempts opened it; this one's are not even made."""
    stage.refused("r")
    assert stage.told()["r"].reason == "breaker-open"


def test_the_file_is_written_once_a_second_and_only_when_it_changes(stage):
    """However many attempts fail."""
    for _ in range(10):
        stage.failed("r", AGAIN)
        stage.told(0.3)
    assert stage.writes == 2
    stage.told(10.0)
    stage.told(10.0)
    assert stage.writes == 3


def test_the_routes_are_bounded(stage, monkeypatch):
    """Those whose failures are oldest go."""
    monkeypatch.setattr(failing_module, "ROUTES_MAX", 2)
    for route in ("a", "b", "a", "c"):
        stage.failed(route, FINAL)
    assert set(stage.told()) == {"a", "c"}


def test_the_next_owner_goes_on_with_them(stage):
    """An epoch ends every few minutes; that heals no sink."""
    for _ in range(5):
        stage.failed("r", AGAIN)
    row = stage.told()["r"]
    heir = Stage(stage.path, stage.clock, stage.timers)
    heir.failed("r", AGAIN)
    assert heir.told()["r"].since_ms == row.since_ms
    assert heir.told()["r"].count == 6
    heir.failing.delivered("r")
    assert heir.told() == {}


@pytest.mark.parametrize("content", [b"", b"[", b"{}", b'[{"route": 1}]', b"\xff"])
def test_a_file_that_is_damaged_says_nothing(stage, content):
    """It is written anew."""
    stage.path.parent.mkdir()
    stage.path.write_bytes(content)
    assert read_failing(stage.path) == []
    stage.failed("r", FINAL)
    assert "r" in stage.told()


def test_a_file_that_cannot_be_written_is_reported_and_tried_again(stage):
    """A full disk stops no delivery."""
    stage.error = StoreError("no space")
    stage.failed("r", FINAL)
    assert stage.told() == {}
    assert stage.reports == [("failing-not-told", {"error": "no space"})]
    stage.error = None
    assert "r" in stage.told()


def test_a_refusal_does_not_take_back_what_was_counted(stage):
    """People see the count grow; it falls with a delivery alone."""
    for _ in range(7):
        stage.failed("r", AGAIN)
    stage.refused("r")
    assert stage.told()["r"].count == 7


def test_a_failing_route_is_told_without_the_query_of_its_sink(stage):
    """Conditions are for everybody to read, and queries hold tokens."""
    stage.refused("r", SINK + "?access_token=canary")
    stage.failed("s", FINAL, SINK + "?access_token=canary")
    assert {row.dest for row in stage.told().values()} == {SINK}
    assert b"canary" not in stage.path.read_bytes()
