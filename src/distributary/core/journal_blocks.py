"""The rows of the history that wait in a journal, for its owner and for readers beside it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from distributary.core.errors import StoreError
from distributary.core.journal_frames import (
    BLOCKS_DECODER,
    MAGIC_HISTORY,
    HistoryBlock,
    bodies,
    history_frames,
)


def content_of(path: Path) -> bytes:
    """All bytes of the journal at *path*; a missing one has none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StoreError(f"cannot read the outcome journal {path}: {error}") from error


def blocks_of(news: Iterable[tuple[int, HistoryBlock]]) -> tuple[list[HistoryBlock], int]:
    """Return the blocks that files of the history may not hold yet, and where those files end.

    Args:
        news: Of each frame that has any, in order: rows below which files hold all, and a block.
            An empty block before all others says where the history goes on.
    """
    blocks: list[HistoryBlock] = []
    filed = 0
    for frame_filed, block in news:
        filed = max(filed, frame_filed)
        if block.length:
            blocks.append(block)
        elif not blocks:
            filed = max(filed, block.first)
    return [block for block in blocks if block.end > filed], filed


def read_blocks(path: Path) -> list[HistoryBlock]:
    """The blocks of the journal at *path* that files of the history may not hold yet, in order.

    For readers beside the owner, who want nothing else of it: a journal of some MiB has 50,000
    matches, which take a tenth of a second to read. What is wanted are its last seconds, and the
    newest frame tells where they begin, so frames before them are stepped over.

    Raises:
        StoreError: It cannot be read; a missing one has no block.
    """
    content = content_of(path)
    blocks: list[HistoryBlock] = []
    filed = 0
    for start, end in reversed(history_frames(content)):
        for frame_filed, block in _block_news(content[start:end]):
            filed = max(filed, frame_filed)
            if block.length:
                blocks.append(block)
        if blocks and blocks[-1].end <= filed:
            break
    return [block for block in reversed(blocks) if block.end > filed]


def blocks_of_frames(contents: Iterable[bytes]) -> list[HistoryBlock]:
    """The same of frames that a database keeps one by one, in order."""
    return blocks_of(news for content in contents for news in _block_news(content))[0]


def _block_news(content: bytes) -> Iterator[tuple[int, HistoryBlock]]:
    for magic, body, _ in bodies(content):
        if magic == MAGIC_HISTORY:
            try:
                _, _, _, filed, first, length, rows = BLOCKS_DECODER.decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return
            yield filed, HistoryBlock(first, length, rows)
