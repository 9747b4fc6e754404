"""When a process looks for memory that it can return."""

import asyncio

import pytest

from distributary.server.processes.base.memory import GROWN_BYTES_MIN, give_back

QUARTER = GROWN_BYTES_MIN // 4
"""A quarter of the growth that is worth a look."""


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
    ("quarters", "looks"),
    [
        ([100, 100, 101, 103, 0], 0),
        ([100, 104, 101, 103, 0], 1),
        ([100, 300, 250, 240, 110, 109, 109, 110, 0], 3),
        ([100, 300, 300, 303, 0], 1),
        ([100, 60, 64, 61, 0], 1),
    ],
    ids=str,
)
def test_a_process_that_has_grown_returns_what_is_free(monkeypatch, quarters, looks):
    """Measured from the least that it came down to, as long as there is something to find."""
    monkeypatch.setattr("distributary.server.processes.base.memory.LOOK_S", 0)
    process = Process([size * QUARTER for size in quarters], 0)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(give_back(process.size, process.trim))
    assert len(process.looks) == looks
