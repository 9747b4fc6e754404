"""A status page in memory, for processes that are parts of one test. Passes the contract."""

from collections import defaultdict

from distributary.datadir import StatusField


class MemoryStatusPage:
    """A view of the status page of one partition.

    Args:
        page: The values, which all views share.
    """

    def __init__(self, page: defaultdict[StatusField, int]) -> None:
        self._page = page

    def __getitem__(self, field: StatusField) -> int:
        """See ``datadir.Words``."""
        return self._page[field]

    def __setitem__(self, field: StatusField, value: int) -> None:
        """See ``datadir.Words``."""
        if not 0 <= value < 1 << 64:
            raise ValueError(f"{value} is no status word")
        self._page[field] = value

    def close(self) -> None:
        """See ``datadir.Words``."""
