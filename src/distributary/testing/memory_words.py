"""Status words in memory, for processes that are parts of one test. Passes the contract."""

from collections import defaultdict

from distributary.datadir import Word


class MemoryWords:
    """The words of one partition, as one of those sees them who share *page*.

    Args:
        page: What they share.
    """

    def __init__(self, page: defaultdict[Word, int]) -> None:
        self._page = page

    def __getitem__(self, word: Word) -> int:
        """See ``datadir.Words``."""
        return self._page[word]

    def __setitem__(self, word: Word, value: int) -> None:
        """See ``datadir.Words``."""
        if not 0 <= value < 1 << 64:
            raise ValueError(f"{value} is no status word")
        self._page[word] = value

    def close(self) -> None:
        """See ``datadir.Words``."""
