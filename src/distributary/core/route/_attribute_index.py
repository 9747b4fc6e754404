"""Index of the predicates on one attribute."""

from distributary.core import filter as filters
from distributary.core.route._affixes import Affixes
from distributary.core.route._buckets import Bucket


class AttributeIndex:
    """The routes filed under the predicates on one attribute.

    A prefix of no characters means that the attribute is present, with any value.

    Attributes:
        there: Bucket for any value; None: none.
        exact: By the attribute's value.
        prefixes: By the beginning of the value; None: there are none.
        suffixes: By the end of the value; None: there are none.
    """

    __slots__ = ("exact", "prefixes", "suffixes", "there")

    def __init__(self) -> None:
        self.there: Bucket | None = None
        self.exact: dict[str, Bucket] = {}
        self.prefixes: Affixes | None = None
        self.suffixes: Affixes | None = None

    def find(self, value: str, met: list[Bucket]) -> None:
        """Append to *met* the buckets of every predicate that *value* satisfies."""
        bucket = self.exact.get(value)
        if bucket is not None:
            met.append(bucket)
        if self.there is not None:
            met.append(self.there)
        if self.prefixes is not None:
            self.prefixes.find(value, met)
        if self.suffixes is not None:
            self.suffixes.find(value, met)

    def get(self, predicate: filters.Predicate) -> Bucket | None:
        """Return the bucket of *predicate*."""
        if predicate.how == "exact":
            return self.exact.get(predicate.text)
        if not predicate.text:
            return self.there
        affixes = self.prefixes if predicate.how == "prefix" else self.suffixes
        return None if affixes is None else affixes.get(predicate.text)

    def put(self, predicate: filters.Predicate, bucket: Bucket) -> None:
        """Set the bucket of *predicate*."""
        if predicate.how == "exact":
            self.exact[predicate.text] = bucket
        elif not predicate.text:
            self.there = bucket
        elif predicate.how == "prefix":
            self.prefixes = self.prefixes or Affixes(suffixes=False)
            self.prefixes.put(predicate.text, bucket)
        else:
            self.suffixes = self.suffixes or Affixes(suffixes=True)
            self.suffixes.put(predicate.text, bucket)

    def remove(self, predicate: filters.Predicate) -> None:
        """Remove *predicate* from the index."""
        if predicate.how == "exact":
            del self.exact[predicate.text]
        elif not predicate.text:
            self.there = None
        elif predicate.how == "prefix":
            assert self.prefixes is not None
            self.prefixes.remove(predicate.text)
            self.prefixes = self.prefixes or None
        else:
            assert self.suffixes is not None
            self.suffixes.remove(predicate.text)
            self.suffixes = self.suffixes or None

    def __bool__(self) -> bool:
        return bool(self.exact or self.there or self.prefixes or self.suffixes)
