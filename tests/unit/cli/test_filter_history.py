"""``distributary filter --history``: which events of the log a draft would have got."""

import json
import re
import sys

import pytest

from distributary.cli import _commands
from distributary.core.event import Event, record
from distributary.core.flow import RecordKind, encode_addressed
from distributary.core.log import Appender, open_folder
from distributary.testing.virtual import VirtualClock

BEGAN_MS = 1_700_000_000_000


@pytest.fixture
def data_dir(tmp_path):
    """Six events, one a second, in turn in two partitions; the last one at a Broker."""
    clock = VirtualClock(wall_ms=BEGAN_MS)
    log_dir = tmp_path / "data" / "log"
    open_folder(log_dir, 2)
    appenders = [Appender.open(log_dir, number, clock=clock) for number in range(2)]
    for number in range(6):
        attributes = {"specversion": "1.0", "id": str(number), "source": "/s", "type": "a.b"}
        body = record.encode([Event(attributes, None)])
        kind = RecordKind.EVENTS
        if number == 5:
            kind, body = RecordKind.ADDRESSED, encode_addressed("broker-uid", (9,), body)
        appenders[number % 2].append([(kind, body)])
        clock.move_to(clock.monotonic_s() + 1.0)
    for appender in appenders:
        appender.close()
    return tmp_path / "data"


@pytest.fixture
def filter_(monkeypatch, capsys, data_dir):
    """Run the command on that log: exit code, events shown, standard error."""

    def run(*words):
        line = ["distributary", "filter", "--data-dir", str(data_dir), "--json", *words]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as caught:
            _commands.main()
        shown = capsys.readouterr()
        rows = [json.loads(text) for text in shown.out.splitlines()]
        return int(caught.value.code or 0), rows, shown.err

    return run


def _found(rows):
    return [(row["place"], row["id"]) for row in rows if "place" in row]


def test_events_of_all_partitions_are_tried_in_order(filter_, tmp_path):
    """Of the default broker; with a draft of a subscription, and its place in the log."""
    draft = tmp_path / "draft.json"
    draft.write_text(json.dumps({"sink": "http://x/", "filters": [{"sql": "id <> '2'"}]}))
    code, rows, _ = filter_("--history", "--filter-file", str(draft), "--show", "pass")
    assert code == 0
    assert _found(rows) == [("0:0:0", "0"), ("1:0:0", "1"), ("1:1:0", "3"), ("0:2:0", "4")]


def test_times_bound_what_is_tried(filter_):
    """From a time on, and before a time; by when events were logged."""
    _, rows, _ = filter_(
        "--history", "--from", "2023-11-14T22:13:21Z", "--to", "2023-11-14T22:13:23Z"
    )
    assert [id_ for _, id_ in _found(rows)] == ["1", "2"]


def test_events_of_a_broker_are_asked_for_by_its_uid(filter_):
    """A subscription of the default broker never gets them."""
    _, rows, _ = filter_("--history", "--broker", "broker-uid")
    assert _found(rows) == [("1:2:0", "5")]


@pytest.mark.parametrize("which", [0, 2], ids=["before others", "last"])
def test_what_the_log_has_lost_is_told(filter_, data_dir, which):
    """It is no event, so the verdict on the range is not whole: exit code 1."""
    (segment,) = (data_dir / "log" / "p0000").glob("*.seg")
    with segment.open("r+b") as file:
        place = [found.start() for found in re.finditer(rb"a\.b", file.read(4096))][which]
        file.seek(place)
        file.write(b"x")
    code, rows, _ = filter_("--history")
    assert code == 1
    assert [row["faults"][0]["code"] for row in rows if row.get("place") == f"0:{which}"] == [
        "missing"
    ]
    assert [id_ for _, id_ in _found([row for row in rows if "id" in row])] == [
        str(number) for number in range(5) if number != which * 2
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(("--from", "1h"), "--from: only with --history", id="without"),
        pytest.param(("--history", "x.json"), "name no files", id="files"),
        pytest.param(("--history", "--from", "yesterday"), "--from", id="time"),
        pytest.param(
            ("--history", "--from", "2026-01-02", "--to", "2026-01-01"), "before --to", id="order"
        ),
    ],
)
def test_flags_that_do_not_fit_are_refused(filter_, words, message):
    """With a clear error, and exit code 2."""
    code, _, err = filter_(*words)
    assert code == 2
    assert message in err
