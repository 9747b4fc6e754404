"""Recalled files in pieces: whatever comes twice, late, damaged or not at all."""

import random

import pytest

from distributary.core.flow import RecordKind
from distributary.core.log.pieces import OPEN_MAX, PIECE_BYTES, Gatherer, cut
from distributary.core.log.recalled import Recalled, RecalledName, RecalledWriter, list_recalled

NAME = RecalledName(100, 110)
WANTED = {100}


def write(folder, name=NAME, size=200_000):
    """A file of four pieces; returns its path."""
    folder.mkdir(exist_ok=True)
    writer = RecalledWriter(folder, name)
    for offset in range(*name):
        writer.add(offset, 1_000, RecordKind.EVENTS, random.Random(offset).randbytes(size))
    writer.finish()
    return name.path(folder)


@pytest.fixture
def there(tmp_path):
    """The folder of an owner."""
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


@pytest.fixture
def sent(tmp_path):
    """A file, and its pieces as the first sending has them."""
    path = write(tmp_path / "here")
    return path, list(cut(path, NAME, 1))


def names(folder):
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("seed", range(8))
def test_pieces_in_any_order_and_twice_are_the_file(sent, there, seed):
    """Byte for byte, with the last one that was missing and not before."""
    path, pieces = sent
    assert len(pieces) == -(-path.stat().st_size // PIECE_BYTES) == 4
    chance = random.Random(seed)
    values = [*pieces, *chance.choices(pieces, k=3), None, b"", b"x" * 100]
    chance.shuffle(values)
    gatherer = Gatherer(there)
    left = set(pieces)
    for value in values:
        left.discard(value)
        whole = gatherer.take(value, WANTED)
        if whole:
            assert whole == NAME
            break
        assert not list_recalled(there)
    assert not left
    assert NAME.path(there).read_bytes() == path.read_bytes()
    assert len(list(Recalled(there, NAME).read(*NAME))) == 10
    assert names(there) == [path.name]
    for value in values:  # what comes later changes nothing
        assert gatherer.take(value, WANTED) is None
    assert names(there) == [path.name]


def test_a_piece_that_is_damaged_or_lost_leaves_no_file(sent, there):
    """Until it comes whole, by this sending or by another one."""
    path, pieces = sent
    gatherer = Gatherer(there)
    for at in (3, 12, 20, 45, 52, 5_000):
        spoilt = bytearray(pieces[2])
        spoilt[at] ^= 4
        assert gatherer.take(bytes(spoilt), WANTED) is None
    for piece in (*pieces[:2], pieces[3]):
        assert gatherer.take(piece, WANTED) is None
    assert gatherer.take(pieces[2][:-1], WANTED) is None
    assert not list_recalled(there)
    again = list(cut(path, NAME, 2))
    assert gatherer.take(again[2], WANTED) is None  # pieces of two sendings are not mixed
    for piece in (again[0], again[1]):
        assert gatherer.take(piece, WANTED) is None
    assert gatherer.take(again[3], WANTED) == NAME
    assert names(there) == [path.name]


def test_what_is_not_wanted_takes_no_space(sent, there):
    """Of an owner before, or of a run that was cancelled."""
    _, pieces = sent
    gatherer = Gatherer(there)
    for piece in pieces:
        assert gatherer.take(piece, {99, 101}) is None
    assert names(there) == []


def test_files_that_are_begun_are_few(tmp_path, there):
    """The oldest goes: its job was killed."""
    path = write(tmp_path / "here")
    gatherer = Gatherer(there)
    for transfer in range(OPEN_MAX + 3):
        gatherer.take(next(cut(path, NAME, transfer)), WANTED)
    assert len(names(there)) == OPEN_MAX
    gatherer.clear()
    assert names(there) == []


def test_a_folder_that_takes_nothing_is_told(sent, tmp_path):
    """And the next sending may succeed."""
    path, pieces = sent
    folder = tmp_path / "gone"
    gatherer = Gatherer(folder)
    with pytest.raises(OSError, match="gone"):
        gatherer.take(pieces[0], WANTED)
    folder.mkdir()
    assert [gatherer.take(piece, WANTED) for piece in pieces][-1] == NAME
    assert NAME.path(folder).read_bytes() == path.read_bytes()
