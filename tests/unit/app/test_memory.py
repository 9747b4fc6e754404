"""When a process looks for memory that it can return."""

import asyncio

import pytest

from distributary.app._memory import GROWN_BYTES_MIN, give_back

MIB = 1024 * 1024


class Process:
    """A process with a size; looks for free pages return *free_bytes*."""

    def __init__(self, sizes: list[int], free_bytes: int) -> None:
        self.sizes = sizes
        self.free_bytes = free_bytes
        self.looks: list[int] = []

    def size(self) -> int:
        if len(self.sizes) == 1:
            raise asyncio.CancelledError
        return self.sizes.pop(0)

    def trim(self) -> None:
        self.looks.append(len(self.sizes))


@pytest.mark.parametrize(
    ("sizes_mib", "looks"),
    [
        ([100, 100, 101, 107, 0], 0),
        ([100, 108, 101, 0], 1),
        ([100, 300, 110, 117, 0], 1),
        ([100, 300, 110, 119, 111, 0], 2),
        ([100, 60, 69, 61, 0], 1),
    ],
    ids=str,
)
def test_a_process_that_has_grown_returns_what_is_free(monkeypatch, sizes_mib, looks):
    """Measured from the least that it came down to."""
    monkeypatch.setattr("distributary.app._memory.LOOK_S", 0)
    process = Process([size * MIB for size in sizes_mib], 0)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(give_back(process.size, process.trim))
    assert len(process.looks) == looks
    assert GROWN_BYTES_MIN == 8 * MIB
