"""One task of the pipeline's writer: rows of a partition into its owner.

Called by ``delivery_sink`` in a Python worker. The session's lock, not Spark, decides who owns
a partition. The end of the input proves nothing (it ends normally when the reader or the JVM is
killed): only outcomes move the cursor (DESIGN rule 7).
"""

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from distributary.pipeline import Board, Places, Session, SessionSettings, Word, prepare_next


def run(batches: Iterator[pa.RecordBatch], settings_json: str) -> None:
    """Own the partition that *batches* come from until they end."""
    settings = msgspec.json.decode(settings_json, type=SessionSettings)
    first = next(batches, None)
    if first is None:
        return
    partition, epoch, token = (first.column(place)[0].as_py() for place in range(3))
    board = Board(Places.of(settings.data_dir).board(partition))
    try:
        # Before the session, and so before the lock: the last owner may be delivering yet.
        prepare_next(settings.data_dir, settings.credential_key_file, partition)
        _own(batches, Session(partition, epoch, settings), board, epoch)
    except BaseException:
        # Spark looks at our failure only once our reader has returned.
        board[Word.FAILED_READER] = token
        raise
    finally:
        board.close()


def _own(batches: Iterator[pa.RecordBatch], session: Session, board: Board, epoch: int) -> None:
    try:
        for batch in batches:
            chunk = batch.column(4)[0].as_py()
            if chunk:
                session.feed(batch.column(3)[0].as_py(), chunk)
            else:
                session.check()
    finally:
        ended = bool(board[Word.STOP]) or board[Word.END_EPOCH] >= epoch
        session.close(orderly=ended)
