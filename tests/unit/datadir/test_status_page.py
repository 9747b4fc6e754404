"""The status page of a partition: numbers that other processes read in shared memory."""

from distributary.datadir import Board, Phase, Word


def test_a_board_is_seen_by_everybody_who_opens_it(tmp_path):
    """Two processes, one page."""
    path = tmp_path / "run" / "p0000.board"
    one, other = Board(path), Board(path)
    one[Word.WATERMARK] = 2**63
    other[Word.PHASE] = Phase.DRAINING
    assert other[Word.WATERMARK] == 2**63
    assert Phase(one[Word.PHASE]) is Phase.DRAINING
    one.close()
    other.close()


def test_a_new_board_is_all_zero_and_an_old_one_keeps_its_numbers(tmp_path):
    """What the last owner wrote stands until the next one writes."""
    board = Board(tmp_path / "board")
    assert {board[word] for word in Word} == {0}
    board[Word.KEEP_FROM] = 7
    board.close()
    again = Board(tmp_path / "board")
    assert again[Word.KEEP_FROM] == 7
    again.close()


def test_every_word_has_a_place_of_its_own():
    """And lies on the page."""
    assert len({int(word) for word in Word}) == len(Word.__members__)
    assert max(Word) < 64
