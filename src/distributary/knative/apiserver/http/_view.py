"""Views: the selection and representation of objects in lists and watches."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from distributary.knative.apiserver.http._negotiation import Form
from distributary.knative.apiserver.machinery import Kind, Object
from distributary.knative.apiserver.machinery.metadata import with_version
from distributary.knative.apiserver.machinery.selector import (
    Selector,
    field_selector,
    label_selector,
)
from distributary.knative.apiserver.machinery.table import Include, list_metadata, partial, table
from distributary.knative.apiserver.objects import ObjectChange, Stored

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark after the initial objects of a watch (KEP-3157)."""

PIECE_BYTES: Final = 256 * 1024
"""JSON of the objects encoded at a time, bytes: one to ten milliseconds, and what a slow client
keeps in memory."""

_encode = msgspec.json.encode


class ListPage(NamedTuple):
    """A part of a list.

    Attributes:
        items: The objects.
        version: Of the whole list.
        token: ``continue`` token; empty: the list is complete.
        remaining: Objects after this page; None: unknown, because of a selector.
    """

    items: Sequence[Stored]
    version: int
    token: str = ""
    remaining: int | None = None


class ListView:
    """A client's view of a kind: namespace, selectors, and form.

    Args:
        kind: Of the objects.
        namespace: Of the objects; None: any.
        labels: Label selector.
        fields: Field selector.
        form: Representation of the objects.
        include: Part of each object in its row, if the form is a table.
        deliveries: Returns how the deliveries of the object with this uid go; for kinds that have
            some.

    Attributes:
        key: Equal for views that show the same.

    Raises:
        StatusError: ``BadRequest``: a selector that cannot be read.
    """

    def __init__(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        labels: str = "",
        fields: str = "",
        form: Form,
        include: Include = "Metadata",
        deliveries: Callable[[str], Object | None] | None = None,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.form = form
        self.key = (kind.resource, namespace, labels, fields, form, include)
        self._include: Include = include
        self._deliveries = deliveries if kind.delivers else None
        self._by_label: Selector | None = label_selector(labels) if labels else None
        self._by_field: Selector | None = field_selector(fields, kind) if fields else None

    @property
    def selects(self) -> bool:
        """Whether there are selectors."""
        return self._by_label is not None or self._by_field is not None

    def picks(self, content: Object) -> bool:
        """Whether the selectors match this object."""
        return (self._by_label is None or self._by_label(content)) and (
            self._by_field is None or self._by_field(content)
        )

    def show(self, stored: Stored, now_ms: int) -> bytes:
        """One object as JSON."""
        if self.form.shape == "object" and self._deliveries is None:
            return stored.json
        return self._reshaped(stored.content, now_ms)

    def _with_deliveries(self, content: Object) -> Object:
        """*content* with how its deliveries go."""
        if self._deliveries is None:
            return content
        found = self._deliveries(content["metadata"]["uid"])
        if found is None:
            return content
        return content | {"status": content.get("status", {}) | {"deliveries": found}}

    def show_page(self, page: ListPage, now_ms: int) -> bytes:
        """A list as JSON."""
        return b"".join(self.page_pieces(page, slices(page.items), now_ms))

    def page_pieces(
        self, page: ListPage, runs: Iterator[Sequence[Stored]], now_ms: int
    ) -> Iterator[bytes]:
        """A list as JSON, in pieces: *page* without its items, and these in *runs*."""
        metadata = list_metadata(page.version, page.token, page.remaining)
        if self.form.shape == "table":
            head = self._table([], now_ms) | {"metadata": metadata}
            del head["rows"]
            yield b'%s,"rows":[' % _encode(head)[:-1]
        else:
            kind, api_version = f"{self.kind.kind}List", self.kind.api_version
            if self.form.shape == "metadata":
                kind, api_version = "PartialObjectMetadataList", self.form.api_version
            head = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
            yield b'%s,"items":[' % _encode(head)[:-1]
        comma = b""
        for items in runs:
            piece = comma + b",".join(self._items(items, now_ms))
            del items  # let them be freed while the client does not read
            yield piece
            comma = b","
        yield b"]}"

    def added(self, items: Sequence[Stored], now_ms: int) -> bytes:
        """Lines of a watch for initial objects that the selectors match."""
        picked = (stored for stored in items if self.picks(stored.content))
        return b"".join(_line(b"ADDED", self.show(stored, now_ms)) for stored in picked)

    def lines(self, changes: Sequence[ObjectChange], now_ms: int) -> bytes:
        """Lines of a watch for the *changes* in this view.

        An object that begins to match is ADDED; one that no longer matches is DELETED: its state
        before, with the version of the change (as by the API server).
        """
        return b"".join(self._change_line(change, now_ms) for change in changes)

    def bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        """A line of a watch with only a version."""
        annotations = {INITIAL_EVENTS_END: "true"} if initial_end else {}
        metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        blank: Object = {
            "kind": self.kind.kind,
            "apiVersion": self.kind.api_version,
            "metadata": metadata,
        }
        if self.form.shape == "table":
            shown = table(self.kind, [], now_ms=0, version=self.form.version, list_version=version)
            shown["metadata"] = metadata
            return _line(b"BOOKMARK", _encode(shown))
        if self.form.shape == "metadata":
            blank = partial(blank, self.form.version)
        return _line(b"BOOKMARK", _encode(blank))

    def _change_line(self, change: ObjectChange, now_ms: int) -> bytes:
        stored, before = change.stored, change.before
        if not self.selects:
            return _line(change.type.encode(), self.show(stored, now_ms))
        stands = change.type != "DELETED" and self.picks(stored.content)
        stood = before is not None and self.picks(before.content)
        if stands:
            return _line(b"MODIFIED" if stood else b"ADDED", self.show(stored, now_ms))
        if not stood or before is None:
            return b""
        if change.type == "DELETED":
            return _line(b"DELETED", self.show(stored, now_ms))
        last = with_version(before.content, stored.version)
        return _line(b"DELETED", self._reshaped(last, now_ms))

    def _reshaped(self, content: Object, now_ms: int) -> bytes:
        if self.form.shape == "object":
            return _encode(self._with_deliveries(content))
        if self.form.shape == "metadata":
            return _encode(partial(content, self.form.version))
        return _encode(self._table([content], now_ms))

    def _items(self, items: Sequence[Stored], now_ms: int) -> list[bytes]:
        """Each object as an item of a list or a row of a table."""
        if self.form.shape != "table":
            return [self.show(stored, now_ms) for stored in items]
        rows = self._table([stored.content for stored in items], now_ms)["rows"]
        return [_encode(row) for row in rows]

    def _table(self, contents: Sequence[Object], now_ms: int) -> Object:
        return table(
            self.kind,
            [self._with_deliveries(each) for each in contents],
            now_ms=now_ms,
            include=self._include,
            version=self.form.version,
        )


def slices(items: Sequence[Stored]) -> Iterator[Sequence[Stored]]:
    """*items* in runs of about ``PIECE_BYTES``, at least one each."""
    begin = 0
    while begin < len(items):
        end = end_of_slice(items, begin)
        yield items[begin:end]
        begin = end


def end_of_slice(items: Sequence[Stored], begin: int) -> int:
    """Where the run of ``slices`` ends that begins at *begin*."""
    size_bytes = 0
    for end in range(begin, len(items)):
        if size_bytes > PIECE_BYTES:
            return end
        size_bytes += len(items[end].json)
    return len(items)


def _line(change: bytes, shown: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (change, shown)


def error_line(status: Object) -> bytes:
    """The last line of a watch that failed."""
    return _line(b"ERROR", _encode(status))
