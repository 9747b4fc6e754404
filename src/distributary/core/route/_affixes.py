"""Index of prefixes or suffixes of one attribute: a hash table for each length, else a trie."""

from typing import Final

from distributary.core.route._buckets import Bucket
from distributary.core.route._trie import Trie

LENGTHS_MAX: Final = 24
"""Most lengths looked up by hash, 0.1 us each, where a trie costs ten cache misses. People write
texts of few lengths; with more of them a trie is better."""
HASHED_CHARS_MAX: Final = 128
"""Longer texts are in the trie: hashing all beginnings of a long value has quadratic cost."""


class Affixes:
    """The routes filed under prefixes, or under suffixes, of one attribute.

    Texts of one length are grouped by the character at the cut. It is usually a separator, so to
    look at it first spares most values the slicing and hashing.

    Args:
        suffixes: The texts are suffixes; else prefixes.
    """

    __slots__ = ("_by_length", "_suffixes", "_trie")

    def __init__(self, *, suffixes: bool) -> None:
        self._suffixes = suffixes
        # length (in their order) -> character at the cut -> text
        self._by_length: dict[int, dict[str, dict[str, Bucket]]] = {}
        self._trie: Trie | None = None  # of the others; suffixes are reversed in it

    def find(self, value: str, met: list[Bucket]) -> None:
        """Append to *met* the buckets of every text that *value* begins with, or ends with."""
        chars, suffixes = len(value), self._suffixes
        for length, by_cut in self._by_length.items():
            if length > chars:
                break
            buckets = by_cut.get(value[-length] if suffixes else value[length - 1])
            if buckets is None:
                continue
            bucket = buckets.get(value[-length:] if suffixes else value[:length])
            if bucket is not None:
                met.append(bucket)
        if self._trie is not None:
            self._trie.find(self._in_trie(value), met)

    def get(self, text: str) -> Bucket | None:
        """Return the bucket of *text*."""
        bucket = self._by_length.get(len(text), {}).get(self._cut(text), {}).get(text)
        return self._get_in_trie(text) if bucket is None else bucket

    def put(self, text: str, bucket: Bucket) -> None:
        """Set the bucket of *text*."""
        if self._get_in_trie(text) is not None or not self._hashed(len(text)):
            self._trie = self._trie or Trie()
            self._trie.put(self._in_trie(text), bucket)
            return
        if len(text) not in self._by_length:
            self._by_length[len(text)] = {}
            self._by_length = dict(sorted(self._by_length.items()))
        self._by_length[len(text)].setdefault(self._cut(text), {})[text] = bucket

    def _hashed(self, length: int) -> bool:
        return length in self._by_length or (
            length <= HASHED_CHARS_MAX and len(self._by_length) < LENGTHS_MAX
        )

    def remove(self, text: str) -> None:
        """Remove *text*."""
        if self._get_in_trie(text) is not None:
            assert self._trie is not None
            self._trie.remove(self._in_trie(text))
            self._trie = self._trie or None
            return
        by_cut = self._by_length[len(text)]
        buckets = by_cut[self._cut(text)]
        del buckets[text]
        if not buckets:
            del by_cut[self._cut(text)]
        if not by_cut:
            del self._by_length[len(text)]

    def _cut(self, text: str) -> str:
        return text[0] if self._suffixes else text[-1]

    def _get_in_trie(self, text: str) -> Bucket | None:
        return None if self._trie is None else self._trie.get(self._in_trie(text))

    def _in_trie(self, text: str) -> str:
        return text[::-1] if self._suffixes else text

    def __bool__(self) -> bool:
        return bool(self._by_length) or self._trie is not None
