"""Watches of the Kubernetes API: endless answers, with a bound of their own."""

import pytest

from distributary.net.http1 import Request
from distributary.server.ingest import IngestSettings, _limits
from distributary.server.ingest._relayed import is_watch

TRIGGERS = b"/apis/eventing.knative.dev/v1/triggers"
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\n"


class Control:
    """The control process: takes connections in memory, a test writes its answers."""

    def __init__(self, transport_of):
        self.transport_of = transport_of
        self.relays = []
        self.upstreams = []

    def __call__(self, relay, _failed, _path):
        self.relays.append(relay)
        self.upstreams.append(self.transport_of(relay, ""))
        relay.connection_made(self.upstreams[-1])


@pytest.fixture
def control(client):
    """A control process for the client's receiver."""
    made = Control(type(client.transport))
    client.context.dial = made
    return made


def get(target: bytes) -> bytes:
    """A request without a body."""
    return b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % target


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        (b"GET", TRIGGERS + b"?watch=true", True),
        (b"GET", TRIGGERS + b"?limit=1&watch=1", True),
        (b"GET", TRIGGERS + b"?watch", True),
        (b"GET", TRIGGERS + b"?watch=False", False),
        (b"GET", TRIGGERS + b"?watch=0", False),
        (b"GET", TRIGGERS + b"?fieldSelector=watch=true", False),
        (b"GET", TRIGGERS + b"?watch=false&watch=true", True),
        (b"GET", TRIGGERS + b"?watch=true&watch=false", False),
        (b"GET", TRIGGERS + b"?w%61tch=%31", True),
        (b"GET", TRIGGERS, False),
        (b"POST", TRIGGERS + b"?watch=true", False),
        (b"GET", b"/subscriptions?watch=true", False),
        (b"GET", b"/api/v1/watch/services", True),
        (b"GET", b"/apis/eventing.knative.dev/v1/watch/triggers", True),
        (b"GET", b"/api/v1/namespaces/watch", False),
        (b"GET", b"/api/v1/namespaces/watch/services", False),
    ],
)
def test_a_watch_is_told_by_its_target(method, target, expected):
    """The parameter says so, or the deprecated path; only GET, only in the Kubernetes API."""
    request = Request()
    request.method, request.target = method, target
    request.path = target.partition(b"?")[0]
    assert is_watch(request) is expected


@pytest.mark.usefixtures("control")
def test_too_many_watches_are_503_and_others_go_on(client, event):
    """Watches have a bound of their own: requests that end, and events, are taken all the same."""
    client.context.counters.watches_in_flight = client.context.settings.watches_max
    assert client.statuses(get(TRIGGERS + b"?watch=true")) == [503]
    assert client.statuses(event()) == [202]
    client.send(get(TRIGGERS))
    assert client.context.counters.relays_in_flight == 1


@pytest.mark.usefixtures("control")
def test_other_requests_at_their_bound_leave_watches_alone(client):
    """A watch does not count among the requests that end."""
    client.context.counters.relays_in_flight = _limits.RELAYS_MAX
    client.send(get(TRIGGERS + b"?watch=true"))
    assert client.context.counters.watches_in_flight == 1
    assert client.context.counters.relays_in_flight == _limits.RELAYS_MAX


def test_a_thousand_watches_fit_and_leave_room():
    """Of the connections that may be open, the larger part may watch; the rest stays free."""
    settings = IngestSettings()
    assert 1_000 <= settings.watches_max <= settings.connections_max - 500


def test_changes_pass_at_once(client, control):
    """What the control process writes is with the client before more comes."""
    client.send(get(TRIGGERS + b"?watch=true"))
    control.relays[-1].data_received(HEAD)
    control.relays[-1].data_received(b'd\r\n{"type":"A"}\n\r\n')
    assert bytes(client.transport.written).endswith(b'd\r\n{"type":"A"}\n\r\n')
    assert not client.transport.closed


def test_a_client_that_leaves_ends_its_watch(client, control):
    """The connection to the control process ends, and the watch counts no more."""
    client.send(get(TRIGGERS + b"?watch=true"))
    control.relays[-1].data_received(HEAD)
    client.connection.connection_lost(None)
    assert control.upstreams[-1].aborted
    assert client.context.counters.watches_in_flight == 0


def test_draining_ends_a_watch_in_good_order(client, control):
    """A stop does not wait for clients that would stay for ever; the answer is complete."""
    client.send(get(TRIGGERS + b"?watch=true"))
    control.relays[-1].data_received(HEAD)
    assert client.context.idle
    client.connection.drain()
    assert bytes(client.transport.written).endswith(b"0\r\n\r\n")
    assert client.transport.closed
    assert control.upstreams[-1].aborted


def test_draining_waits_for_answers_that_end(client, control):
    """A request that is no watch gets its answer."""
    client.send(get(TRIGGERS))
    control.relays[-1].data_received(HEAD)
    client.connection.drain()
    assert not client.transport.closed
    assert not client.context.idle


@pytest.mark.parametrize(
    ("path", "statuses"),
    [(TRIGGERS, []), (b"/api/v1/namespaces/x/services", []), (b"/subscriptions", [413])],
)
@pytest.mark.usefixtures("control")
def test_objects_may_be_larger_than_events(client, path, statuses):
    """An object of 1 MiB comes with the white space of its file."""
    length = client.context.settings.body_bytes_max + 1
    head = b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % (path, length)
    assert client.statuses(head) == statuses


@pytest.mark.usefixtures("control")
def test_objects_have_a_limit_too(client):
    """413 before the body is read."""
    length = _limits.OBJECT_BODY_BYTES_MAX + 1
    head = b"PUT %s/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % (
        TRIGGERS,
        length,
    )
    assert client.statuses(head) == [413]
