"""Rows of the history whose records have got other numbers: for who moves a partition.

Called by ``server.migrate``.
"""

from typing import Final

import msgspec

from distributary.history import rows as history_rows

_encoder: Final = msgspec.msgpack.Encoder()


def renumbered(rows: bytes, by: int) -> bytes:
    """The rows of a block of the journal, with numbers of records that are lower by *by*.

    Raises:
        StoreError: They cannot be read: a newer version wrote them.
    """
    if not by:
        return rows
    block = history_rows.decode(rows).in_full()
    events = [event._replace(offset=event.offset - by) for event in block.events]
    return _encoder.encode((events, block.routes, block.rows))
