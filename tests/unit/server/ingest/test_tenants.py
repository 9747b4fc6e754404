"""Quotas of namespaces at the receiver: what is refused, whom it concerns, over all receivers."""

import contextlib
import dataclasses
import random

import msgspec
import pytest

from distributary.access import AccessSnapshot, Grant, KeyRecord, Verb, make_key
from distributary.core.errors import RequestError
from distributary.core.quotas import Quotas, QuotaTable
from distributary.datadir import TenantCounts, Used, make_tenant_counts
from distributary.server.ingest import Tenants
from distributary.server.processes.receiver.namespace_counters import (
    OTHERS,
    SHOWN_MAX,
    namespace_counters,
)

PATHS = {
    "namespaces/default/events": "",
    "namespaces/shop/events": "@shop",
    "brokers/shop/default": "@shop",
    "channels/shop/c": "uid-c",
    "namespaces/till/events": "@till",
}


def quotas(name, **limits):
    """Quotas of one namespace; ``*``: of all others."""
    if name == "*":
        return QuotaTable(others=Quotas(**limits))
    return QuotaTable(named={name: Quotas(**limits)})


@pytest.fixture
def limited(connect):
    """Limits a namespace of a receiver that knows the paths; no control process answers."""
    client = connect(dial=lambda _relay, failed, _path: failed())

    def limit(name, **limits):
        context = client.context
        context.learn(PATHS)
        context.settings = dataclasses.replace(context.settings, quotas=quotas(name, **limits))
        context.tenants.change(context.settings.quotas)
        return client

    return limit


def to(event, path):
    """An event on its way to *path*; of the default broker in plain form."""
    return event().replace(b"POST /events", b"POST " + path, 1)


@pytest.mark.parametrize("path", [b"/namespaces/shop/events", b"/events"])
def test_events_beyond_the_rate_are_refused_until_a_second_is_over(limited, event, path):
    """With 429, when to retry, and which quota of whom it is."""
    name = "default" if path == b"/events" else "shop"
    client = limited(name, events_per_s=3.0)
    assert client.statuses(*[to(event, path)] * 3) == [202] * 3
    (answer,) = client.send(to(event, path))
    assert answer.status == 429
    assert answer.fields[b"retry-after"] == b"1"
    assert answer.problem["code"] == "quota-exceeded"
    assert f"{name} has used up its quota events_per_s = 3" in answer.problem["detail"]
    client.clock.now_s += 1.0
    assert client.statuses(*[to(event, path)] * 4) == [202, 202, 202, 429]


def test_a_namespace_at_its_limit_leaves_the_others_alone(limited, event):
    """Each has its own buckets, also by a quota that holds for all."""
    client = limited("*", events_per_s=2.0)
    assert client.statuses(*[to(event, b"/namespaces/shop/events")] * 3) == [202, 202, 429]
    assert client.statuses(*[to(event, b"/namespaces/till/events")] * 2) == [202, 202]
    assert client.statuses(*[to(event, b"/events")] * 2) == [202, 202]


def test_all_paths_of_a_namespace_share_its_quota(limited, event):
    """A Channel is no way around it."""
    client = limited("shop", events_per_s=2.0)
    paths = (b"/namespaces/shop/events", b"/brokers/shop/default", b"/channels/shop/c")
    assert client.statuses(*[to(event, path) for path in paths]) == [202, 202, 429]


def test_bytes_are_counted_too(limited, event):
    """A request larger than a second's worth passes, and is paid for."""
    client = limited("shop", event_bytes_per_s=1_000.0)
    large = event(b'"' + b"x" * 5_000 + b'"').replace(b"/events", b"/namespaces/shop/events", 1)
    assert client.statuses(large, to(event, b"/namespaces/shop/events")) == [202, 429]


def test_a_change_of_quotas_holds_at_once(limited, event):
    """Without one nothing is refused."""
    client = limited("shop", events_per_s=1.0)
    path = b"/namespaces/shop/events"
    assert client.statuses(*[to(event, path)] * 2) == [202, 429]
    client.context.tenants.change(QuotaTable())
    assert client.statuses(*[to(event, path)] * 5) == [202] * 5


def test_calls_are_refused_before_they_are_passed_on(limited):
    """By the namespace of their path, in the form of the API; health is no call."""
    client = limited("shop", calls_per_s=1.0)

    def get(path):
        (answer,) = client.send(b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % path)
        return answer

    assert get(b"/namespaces/shop/subscriptions").status == 503
    refused = get(b"/namespaces/shop/subscriptions/a")
    assert (refused.status, refused.problem["code"]) == (429, "quota-exceeded")
    status = get(b"/apis/eventing.knative.dev/v1/namespaces/shop/brokers")
    assert (status.status, msgspec.json.decode(status.body)["kind"]) == (429, "Status")
    assert get(b"/namespaces/till/subscriptions").status == 503
    assert get(b"/healthz").status == 503


@pytest.mark.parametrize("path", [b"/whoami", b"/keys", b"/openapi/v3"])
def test_calls_of_no_namespace_count_for_the_only_one_of_the_sender(limited, path):
    """Else a tenant at its limit asks on there; whoever may act in several is no tenant of one."""
    client = limited("shop", calls_per_s=1.0)
    shown = {}
    records = []
    for name, namespaces in {"tenant": ("shop",), "operator": ("shop", "till")}.items():
        key = make_key(random.Random(name).randbytes)
        shown[name] = b"authorization: Bearer " + key.text.encode()
        grants = (Grant(may=(Verb.ADMIN,), namespaces=namespaces),)
        records.append(KeyRecord(id=key.id, name=name, sha256=key.sha256, grants=grants))
    client.context.gate.replace(AccessSnapshot(required=True, keys=tuple(records)))

    def statuses(name):
        request = b"GET %s HTTP/1.1\r\nhost: localhost\r\n%s\r\n\r\n" % (path, shown[name])
        return client.statuses(*[request] * 3)

    assert statuses("tenant") == [503, 429, 429]
    assert statuses("operator") == [503] * 3


@pytest.fixture
def two(tmp_path):
    """The tenants of two receivers of one server, and their clock."""

    class Clock:
        now_s = 100.0

    make_tenant_counts(tmp_path / "counts", 2)
    made = []
    for number in range(2):
        tenants = Tenants(lambda: Clock.now_s, TenantCounts(tmp_path / "counts", number))
        tenants.change(quotas("*", events_per_s=100.0))
        tenants.learn(PATHS)
        made.append(tenants)
    return made, Clock


def admitted(tenants, address, tries):
    """How many of so many events one receiver admits."""
    count = 0
    for _ in range(tries):
        if tenants.admits(address):
            tenants.take_events(address, 1, 10)
            count += 1
    return count


def test_a_rate_holds_for_the_sum_of_all_receivers(two):
    """Both together admit a second's worth in a second, after the first burst."""
    (first, second), clock = two
    total = 0
    for _ in range(100):  # five seconds
        total += admitted(first, "@shop", 50) + admitted(second, "@shop", 50)
        clock.now_s += 0.05
    assert 500 <= total <= 800  # 5 s, the two first bursts, and a look's worth
    rest = 0
    for _ in range(100):
        rest += admitted(first, "@shop", 50) + admitted(second, "@shop", 50)
        clock.now_s += 0.05
    assert rest <= 550


def test_calls_over_amqp_and_over_http_are_counted_together(two, tmp_path):
    """The control process is one more receiver."""
    (first, second), clock = two
    control = Tenants(lambda: clock.now_s, TenantCounts(tmp_path / "counts", 2))
    every = (first, second, control)
    for tenants in every:
        tenants.change(quotas("shop", calls_per_s=9.0))
        tenants.take_call("shop")
    for _ in range(9):  # the burst is used up once they have looked at one another
        clock.now_s += 0.06
        for tenants in every:
            with contextlib.suppress(RequestError):
                tenants.take_call("shop")
    for tenants in every:
        with pytest.raises(RequestError, match="calls_per_s = 9"):
            tenants.take_call("shop")


def test_what_another_receiver_admits_of_one_namespace_costs_no_other(two):
    """Slots are of a namespace."""
    (first, second), clock = two
    for _ in range(20):
        admitted(second, "@shop", 1_000)
        clock.now_s += 0.05
    assert admitted(first, "@till", 1_000) == 100


def test_a_receiver_that_is_started_again_is_no_use_of_its_quota(two, tmp_path):
    """Its counts go on."""
    (first, second), clock = two
    admitted(second, "@shop", 50)
    clock.now_s += 1.0
    assert first.admits("@shop")
    TenantCounts(tmp_path / "counts", 1)
    clock.now_s += 1.0
    assert admitted(first, "@shop", 1_000) == 100


def test_a_restart_after_three_gigabytes_looks_like_no_use(tmp_path):
    """A count that stepped back would be taken for a thousand million bytes, and block a tenant."""
    path = tmp_path / "counts"
    make_tenant_counts(path, 2)
    first, second = (TenantCounts(path, number).of("shop") for number in range(2))
    second.add(Used.BYTES, 3_000_000_000)
    assert first.taken_elsewhere(Used.BYTES) == 3_000_000_000
    again = TenantCounts(path, 1).of("shop")
    assert first.taken_elsewhere(Used.BYTES) == 0
    again.add(Used.BYTES, 2_000_000_000)  # beyond 2**32
    assert first.taken_elsewhere(Used.BYTES) == 2_000_000_000


def test_calls_to_invented_namespaces_take_no_meter_of_others(monkeypatch):
    """Beyond the most meters, those who only ask give way to those to whom somebody can publish."""
    monkeypatch.setattr("distributary.server.ingest._tenants.METERS_MAX", 10)
    tenants = Tenants(lambda: 0.0, TenantCounts())
    tenants.change(quotas("*", calls_per_s=5, events_per_s=5))
    tenants.learn({"namespaces/shop/events": "@shop"})
    for number in range(50):
        tenants.take_call(f"n{number}")
    assert len(tenants.by_namespace) <= 10
    tenants.learn({"namespaces/shop/events": "@shop", "namespaces/new/events": "@new"})
    assert {"@shop", "@new"} <= set(tenants.by_address)


def test_metrics_name_a_bounded_number_of_namespaces():
    """The others are summed; who did nothing has no series."""
    tenants = Tenants(lambda: 0.0, TenantCounts())
    names = [f"n{number}" for number in range(SHOWN_MAX + 5)]
    tenants.learn({f"namespaces/{name}/events": f"@{name}" for name in [*names, "idle"]})
    for name in names:
        tenants.take_events(f"@{name}", 2, 10)
    found = namespace_counters(tenants)
    assert found[f'namespace_events_total{{namespace="{OTHERS}"}}'] == 10
    assert found['namespace_event_bytes_total{namespace="n0"}'] == 10
    assert sum(value for name, value in found.items() if "events_total" in name) == 2 * len(names)
    assert 'namespace_events_total{namespace="idle"}' not in found
