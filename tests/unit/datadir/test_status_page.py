"""The status page of a partition: numbers that other processes read in shared memory."""

from distributary.datadir import MappedStatusPage, Phase, StatusField


def test_a_status_page_is_seen_by_everybody_who_opens_it(tmp_path):
    """Two processes, one page."""
    path = tmp_path / "run" / "p0000.board"
    one, other = MappedStatusPage(path), MappedStatusPage(path)
    one[StatusField.COMMITTED_OFFSET] = 2**63
    other[StatusField.PHASE] = Phase.DRAINING
    assert other[StatusField.COMMITTED_OFFSET] == 2**63
    assert Phase(one[StatusField.PHASE]) is Phase.DRAINING
    one.close()
    other.close()


def test_a_new_status_page_is_all_zero_and_an_old_one_keeps_its_numbers(tmp_path):
    """What the last owner wrote stands until the next one writes."""
    status_page = MappedStatusPage(tmp_path / "board")
    assert {status_page[field] for field in StatusField} == {0}
    status_page[StatusField.KEEP_FROM] = 7
    status_page.close()
    again = MappedStatusPage(tmp_path / "board")
    assert again[StatusField.KEEP_FROM] == 7
    again.close()


def test_every_word_has_a_place_of_its_own():
    """And lies on the page."""
    assert len({int(field) for field in StatusField}) == len(StatusField.__members__)
    assert max(StatusField) < 64
