"""Every page of status words: what one process writes the others see."""

from collections import defaultdict

import pytest

from distributary.datadir import MappedStatusPage, StatusField
from distributary.testing.memory_status_page import MemoryStatusPage

LARGEST = 2**64 - 1


@pytest.fixture(params=["memory", "file"])
def look(request, tmp_path):
    """A function that gives one more process a look at the same page."""
    made = []
    page = defaultdict(int)

    def open_page():
        memory = request.param == "memory"
        words = (
            MemoryStatusPage(page) if memory else MappedStatusPage(tmp_path / "boards" / "p0000")
        )
        made.append(words)
        return words

    yield open_page
    for words in made:
        words.close()


def test_words_that_nobody_wrote_are_zero(look):
    """A partition that was never delivered has a page all the same."""
    assert {look()[field] for field in StatusField} == {0}


def test_what_one_writes_the_others_see(look):
    """Those who looked before, and those who come later."""
    writer, early = look(), look()
    writer[StatusField.EPOCH] = 7
    assert (writer[StatusField.EPOCH], early[StatusField.EPOCH], look()[StatusField.EPOCH]) == (
        7,
        7,
        7,
    )


def test_each_word_stands_by_itself(look):
    """Writers of different words are in nobody's way."""
    one, other = look(), look()
    for number, field in enumerate(StatusField, 1):
        (one if number % 2 else other)[field] = number
    assert [look()[field] for field in StatusField] == list(range(1, len(StatusField) + 1))


def test_words_outlive_their_writer(look):
    """Whoever is next finds them as they were left."""
    writer = look()
    writer[StatusField.FAILURES] = 3
    writer.close()
    assert look()[StatusField.FAILURES] == 3


def test_a_word_holds_any_number_of_64_bits_and_no_other(look):
    """A negative one, or a larger one, is refused, and changes nothing."""
    words = look()
    words[StatusField.COMMITTED_OFFSET] = LARGEST
    for wrong in (-1, LARGEST + 1):
        with pytest.raises(ValueError, match=r"status word|memoryview"):
            words[StatusField.COMMITTED_OFFSET] = wrong
    assert words[StatusField.COMMITTED_OFFSET] == LARGEST
