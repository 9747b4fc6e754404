from pathlib import Path

import pytest

from distributary.cli import ledger as ledgers
from distributary.cli.ledger import Arrival, LedgerError, LedgerWriter, Sent

SENT = Sent(id="1", source="/s", state="acked", t=5, attributes={"id": "1"}, status=202)
ARRIVAL = Arrival(id="1", source="/s", t=6, status=200, route="/r", error_code="400")


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    """Both kinds of line survive the file."""
    for line, read in ((SENT, ledgers.read_sent), (ARRIVAL, ledgers.read_arrivals)):
        path = tmp_path / type(line).__name__
        with LedgerWriter(path) as ledger:
            ledger.write(line, line)
        assert list(read(path)) == [line, line]


def test_a_second_run_appends(tmp_path: Path) -> None:
    """Evidence of earlier runs stays."""
    for _ in range(2):
        with LedgerWriter(tmp_path / "l") as ledger:
            ledger.write(SENT)
    assert len(list(ledgers.read_sent(tmp_path / "l"))) == 2


def test_flush_lets_others_read_before_the_end(tmp_path: Path) -> None:
    """A killed process leaves what it had flushed."""
    with LedgerWriter(tmp_path / "l") as ledger:
        ledger.write(SENT)
        ledger.flush()
        assert list(ledgers.read_sent(tmp_path / "l")) == [SENT]


def test_an_unfinished_last_line_is_passed_over_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    """A torn tail is normal after a kill; damage in the middle is not."""
    path = tmp_path / "l"
    with LedgerWriter(path) as ledger:
        ledger.write(SENT)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-1])
    assert list(ledgers.read_sent(path)) == [SENT]
    path.write_bytes(whole[:-9] + b"\n" + whole)
    with pytest.raises(LedgerError, match="line 1"):
        list(ledgers.read_sent(path))


def test_the_attribute_digest_knows_no_order_and_every_change() -> None:
    """Same set, same digest; a moved boundary between name and text is another set."""
    digest = ledgers.attributes_sha256
    assert digest({"a": "1", "b": "2"}) == digest({"b": "2", "a": "1"})
    assert digest({"a": "1", "b": "2"}) != digest({"a": "1", "b": "3"})
    assert digest({"a": "1=2"}) != digest({"a1": "2"})
    assert digest({"a": "1"}) == digest({"a": "1", "knativeerrordest": "x"})


def test_no_payload_and_an_empty_one_are_the_same_on_the_wire() -> None:
    """Binary mode cannot tell them apart."""
    assert ledgers.data_sha256(None) == ledgers.data_sha256(b"") == ""
    assert ledgers.data_sha256(b"x") != ledgers.data_sha256(b"y")
