"""Events and headers that the tests of this room share."""

from collections.abc import Callable

import pytest

from distributary.core.errors import Fault
from distributary.core.event import AttributeValue, Event
from distributary.core.flow import Origin, Position, Stage, Task

REQUIRED: dict[str, AttributeValue] = {
    "specversion": "1.0",
    "id": "A234-1234-1234",
    "source": "/mycontext/subcontext",
    "type": "com.example.someevent",
}


@pytest.fixture
def required() -> dict[str, AttributeValue]:
    """The four required attributes, fresh for each test."""
    return dict(REQUIRED)


@pytest.fixture
def make_event() -> Callable[..., Event]:
    """Builds a valid event: required attributes, then those given."""

    def make(data: bytes | None = None, **attributes: AttributeValue) -> Event:
        return Event(REQUIRED | attributes, data)

    return make


@pytest.fixture
def make_headers() -> Callable[..., list[tuple[bytes, bytes]]]:
    """Builds binary-mode headers: required attributes as ``ce-`` fields, then those given."""

    def make(*more: tuple[bytes, bytes], **values: bytes | None) -> list[tuple[bytes, bytes]]:
        fields = {name: str(value).encode() for name, value in REQUIRED.items()} | values
        return [
            *(
                (b"ce-" + name.encode(), value)
                for name, value in fields.items()
                if value is not None
            ),
            *more,
        ]

    return make


@pytest.fixture
def places() -> Callable[[tuple[Fault, ...]], list[tuple[str, str]]]:
    """Reduces faults to what is stable: (path, code), sorted."""

    def reduce(faults: tuple[Fault, ...]) -> list[tuple[str, str]]:
        return sorted((fault.path, fault.code) for fault in faults)

    return reduce


@pytest.fixture
def make_task():
    """Makes a task of a route at a place."""

    def make(offset=0, index=0, route="r", **attributes):
        named = {"specversion": "1.0", "id": f"{offset}", "source": "/s", "type": "t"}
        event = Event(named | attributes, b"x")
        place = Position(0, offset, index)
        return Task(place, 1, route, event, Stage.PRIMARY, 1, 0, Origin.LIVE)

    return make
