"""Who may ask: which names are ours, and which web pages may change anything."""

import msgspec
import pytest

from distributary.server.ingest import Guard
from distributary.server.ingest._context import IngestContext

PUBLIC = "https://events.example.com"


@pytest.fixture
def told():
    """Names that were told of, in order."""
    return []


@pytest.fixture
def guarded(connect, told):
    """A client of a server with names of every sort, without a control process."""
    plain = connect()
    guard = Guard(("Host1", "lan.example"), PUBLIC, ("events.shop.svc",), told.append)
    context = IngestContext(plain.appends, plain.settings, plain.clock, None, guard=guard)
    return connect(appends=plain.appends, clock=plain.clock, context=context)


def post(event, host: bytes, more: bytes = b"") -> bytes:
    """An event for *host*."""
    return event(more=more).replace(b"host: localhost", b"host: " + host, 1)


@pytest.mark.parametrize(
    "host",
    [
        b"127.0.0.1:8080",
        b"192.0.2.7",
        b"[::1]:8080",
        b"[2001:db8::1]",
        b"[fe80::1%eth0]:8080",
        b"[fe80::1%25eth0]",
        b"localhost",
        b"LOCALHOST:1",
        b"localhost.",
        b"host1:8080",
        b"lan.example",
        b"events.example.com",
        b"Events.Example.com.:443",
        b"events.shop.svc:80",
        b"",
    ],
)
def test_addresses_and_our_names_are_answered(guarded, event, told, host):
    """A name that rebinds to us is none of them."""
    assert guarded.statuses(post(event, host), post(event, host)) == [202, 202]
    assert told == []


@pytest.mark.parametrize(
    "host",
    [
        b"rebind.example:8080",
        b"127.0.0.1.rebind.example",
        b"localhost.rebind.example",
        b"xlocalhost",
        b"xevents.shop.svc",
        b"events.shop.svc.example",
        b"[127.0.0.1]x",
        b"[rebind.example%eth0]",
        b"[::1",
        b"::1",
        b"127.1",
        b"0x7f000001",
        b"localhost:1:2",
        b"localhost:x",
        b"%6cocalhost",
        b".",
    ],
)
def test_other_hosts_are_misdirected(guarded, event, host):
    """RFC 9110 section 7.4: 421; the next request of the connection is judged anew."""
    answers = guarded.send(post(event, host), post(event, b"localhost"))
    assert [answer.status for answer in answers] == [421, 202]
    assert answers[0].problem["code"] == "misdirected"
    assert len(guarded.appends.received) == 1


def test_a_machine_without_a_name_answers_no_host_that_is_none(connect, event):
    """What cannot be read in a Host has no name either."""
    plain = connect()
    context = IngestContext(plain.appends, plain.settings, plain.clock, None, guard=Guard(("",)))
    nameless = connect(appends=plain.appends, clock=plain.clock, context=context)
    hosts = (b"rebind.example:1:2", b"[::1", b".")
    assert nameless.statuses(*(post(event, host) for host in hosts)) == [421, 421, 421]


@pytest.mark.parametrize(
    "line",
    [b"GET /metrics", b"OPTIONS /events", b"OPTIONS *", b"GET /docs", b"POST /subscriptions"],
)
def test_reading_under_a_foreign_name_is_misdirected_too(guarded, line):
    """A page on a name that rebinds would read everything."""
    answers = guarded.send(b"%s HTTP/1.1\r\nhost: rebind.example\r\n\r\n" % line)
    assert [answer.status for answer in answers] == [421]


def test_the_authority_of_the_target_is_what_counts(guarded):
    """RFC 9112 section 3.2.2: it replaces Host, also for the guard."""
    request = b"GET http://%s/x HTTP/1.1\r\nhost: %s\r\n\r\n"
    assert guarded.statuses(request % (b"rebind.example", b"localhost")) == [421]
    assert guarded.statuses(request % (b"localhost", b"rebind.example")) == [404]


def test_without_a_host_http_1_0_is_answered(guarded):
    """Browsers always send it."""
    assert guarded.statuses(b"OPTIONS /events HTTP/1.0\r\n\r\n") == [200]


def test_each_refused_name_is_told_once_and_few_in_all(guarded, event, told):
    """A log that strangers fill would hide the one line that matters."""
    for name in (b"events:80", b"EVENTS", b"events.:81"):
        guarded.send(post(event, name))
    assert told == ["events"]
    for number in range(100):
        guarded.send(post(event, b"name%d.example" % number))
    assert len(told) == 64


def test_what_the_operator_allows_changes_while_we_run(guarded, event):
    """Also for a connection that is open, and for names that had passed."""
    asked = [post(event, host) for host in (b"events.shop.svc", b"other.svc")]
    assert guarded.statuses(*asked) == [202, 421]
    guarded.context.guard.allow(["other.svc"])
    assert guarded.statuses(*asked) == [421, 202]


def test_spellings_without_end_cost_no_memory_without_end(guarded):
    """Every address is ours, with every port."""
    for number in range(3000):
        host = b"127.0.%d.%d" % (number // 250, number % 250)
        guarded.connection.data_received(b"OPTIONS /events HTTP/1.1\r\nhost: %s\r\n\r\n" % host)
    assert len(guarded.context.guard.passed) <= 1024


FOREIGN = [
    b"origin: https://evil.example\r\n",
    b"origin: null\r\n",
    b"origin: http://localhost:9\r\n",
    b"origin: http://127.0.0.1:8080\r\n",
    b"origin: http://localhost.\r\norigin: http://localhost\r\n",
    b"origin: localhost\r\n",
    b"origin: file://\r\n",
    b"origin: \r\n",
    b"origin: https://events.example.com:444\r\n",
    b"origin: chrome-extension://localhost\r\n",
    b"sec-fetch-site: cross-site\r\n",
    b"sec-fetch-site: same-site\r\n",
    b"sec-fetch-site: none\r\nsec-fetch-site: none\r\n",
    b"origin: http://localhost\r\nsec-fetch-site: cross-site\r\n",
]


@pytest.mark.parametrize("fields", FOREIGN)
def test_a_foreign_page_changes_nothing(guarded, event, fields):
    """On any path, with any method that is not for reading."""
    answers = guarded.send(post(event, b"localhost", fields))
    assert [answer.status for answer in answers] == [403]
    assert answers[0].problem["code"] == "cross-origin"
    for method in (b"POST", b"PUT", b"PATCH", b"DELETE", b"PURGE"):
        request = b"%s /subscriptions/x HTTP/1.1\r\nhost: localhost\r\n%s\r\n" % (method, fields)
        assert guarded.statuses(request) == [403]
    assert guarded.appends.received == []


@pytest.mark.parametrize("fields", FOREIGN)
def test_reading_is_for_everybody(guarded, fields):
    """The browser itself keeps answers from foreign pages."""
    request = b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\n" + fields + b"\r\n"
    assert guarded.statuses(request) == [200]


@pytest.mark.parametrize(
    ("host", "fields"),
    [
        (b"localhost", b"origin: http://localhost\r\nsec-fetch-site: same-origin\r\n"),
        (b"localhost:80", b"origin: http://localhost\r\n"),
        (b"127.0.0.1:8080", b"origin: http://127.0.0.1:8080\r\n"),
        (b"[::1]:8080", b"origin: http://[::1]:8080\r\n"),
        (b"events.example.com", b"origin: https://events.example.com\r\n"),
        (b"127.0.0.1:8080", b"origin: https://events.example.com\r\n"),
        (
            b"127.0.0.1:8080",
            b"origin: https://events.example.com\r\nsec-fetch-site: cross-site\r\n",
        ),
        (b"localhost", b"sec-fetch-site: none\r\n"),
        (b"localhost", b"sec-fetch-site: same-origin\r\n"),
    ],
)
def test_our_own_pages_may_change_things(guarded, event, host, fields):
    """Those of the host that was asked, and those of the public URL, whoever ends TLS."""
    assert guarded.statuses(post(event, host, fields)) == [202]


@pytest.mark.parametrize(
    "path", [b"/apis/eventing.knative.dev/v1/namespaces/x/triggers", b"/api", b"/version"]
)
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (b"host: localhost\r\norigin: null\r\n", (403, "Forbidden", "cross-origin")),
        (b"host: rebind.example\r\n", (421, "", "misdirected")),
    ],
)
def test_clients_of_the_kubernetes_api_read_a_status(guarded, path, fields, expected):
    """They understand no other error."""
    code, reason, cause = expected
    (answer,) = guarded.send(b"POST %s HTTP/1.1\r\n%s\r\n" % (path, fields))
    assert answer.status == code
    assert answer.fields[b"content-type"] == b"application/json"
    status = msgspec.json.decode(answer.body)
    assert (status["kind"], status["code"], status["reason"]) == ("Status", code, reason)
    assert status["details"]["causes"][0]["reason"] == cause


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/apis//eventing.knative.dev/v1/namespaces/x/triggers", "Status"),
        (b"//apis/eventing.knative.dev/v1/triggers?watch=1", "Status"),
        (b"/apis/../events", "Status"),
        (b"/%61pis/x%2Fy", "Status"),
        (b"http://localhost/api/v1/./namespaces", "Status"),
        (b"/apis/#x", "Status"),
        (b"/events//x", None),
        (b"/console/../apis", None),
    ],
)
def test_where_the_path_is_not_canonical_they_read_one_too(guarded, target, expected):
    """Not problem details, which kubectl shows as nothing but the status."""
    (answer,) = guarded.send(b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % target)
    assert answer.status == 400
    body = msgspec.json.decode(answer.body)
    assert body.get("kind") == expected
    assert (body["message"] if expected else body["detail"]).endswith("is not canonical.")


def test_what_we_refuse_is_nothing_for_other_pages(guarded):
    """Whatever element of theirs asks for it."""
    (answer,) = guarded.send(b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert answer.fields[b"x-content-type-options"] == b"nosniff"
    assert answer.fields[b"cross-origin-resource-policy"] == b"same-origin"
