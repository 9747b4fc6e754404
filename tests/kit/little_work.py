"""Bounds the processor time of a call, so that what would backtrack for hours fails at once."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Final, NoReturn

CPU_S: Final = 5.0
"""Most processor time, seconds: a thousand times what such a call needs."""


@contextlib.contextmanager
def little_work() -> Iterator[None]:
    """Raise ``AssertionError`` in a body that works for ``CPU_S``. For the main thread."""

    def stop(_signal: int, _frame: object) -> NoReturn:
        raise AssertionError(f"it has taken {CPU_S:g} s of a processor")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
