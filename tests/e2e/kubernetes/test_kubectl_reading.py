"""kubectl reads: lists in every form, selectors, watches, waits, descriptions, explanations."""

import json
import subprocess
import threading

import pytest

from distributary.knative.kinds import API_SUBSCRIPTION, DEFINITION, KINDS
from kit.running_server import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEEN_S_MAX = 60.0
"""Longest wait for something to be shown."""

COLUMNS = {
    "brokers": ["URL", "AGE", "READY", "REASON"],
    "triggers": ["BROKER", "SUBSCRIBER_URI", "AGE", "READY", "REASON", "FAILING"],
    "channels": ["URL", "AGE", "READY", "REASON"],
    "subscriptions": ["AGE", "READY", "REASON", "FAILING"],
    "services": ["TYPE", "CLUSTER-IP", "EXTERNAL-NAME", "AGE"],
    "configmaps": ["AGE"],
    "namespaces": ["STATUS", "AGE"],
}
"""Of each list, behind the name."""

LATE = """\
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: late}
spec:
  broker: shop
  subscriber: {uri: "http://127.0.0.1:1/late"}
"""


def _header(table: str) -> list[str]:
    return table.splitlines()[0].split()


def _cells(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()[1:]]


def test_lists_have_the_columns_that_people_know(shop):
    """As Knative's and Kubernetes' own."""
    for resource, columns in COLUMNS.items():
        assert _header(shop("get", resource)) == ["NAME", *columns]


def test_one_list_shows_several_kinds_and_states(shop):
    """Ready or not, and why; short names and categories work."""
    shop.apply(LATE.replace("broker: shop", "broker: none"))
    shop("wait", "--for=condition=Ready=False", "--timeout=60s", "trigger/late")
    late, orders = _cells(shop("get", "triggers"))
    assert [late[0], late[1], late[4], late[5]] == ["late", "none", "False", "BrokerDoesNotExist"]
    uri = f"http://books.{shop.namespace}.svc/orders"
    assert [*orders[:3], orders[4]] == ["orders", "shop", uri, "True"]
    everything = shop("get", "knative,svc,cm,ch,sub", "-o", "name").split()
    assert {name.split("/")[1] for name in everything} == {
        *("shop", "late", "orders", "parcels", "carrier", "books", "tuning")
    }


def test_every_form_of_output_shows_the_object(shop):
    """JSON, YAML, names, paths, templates, columns, a wide table."""
    whole = json.loads(shop("get", "trigger", "orders", "-o", "json"))
    assert whole["status"]["subscriberUri"].endswith("/orders")
    assert "subscriberUri: http://books" in shop("get", "trigger/orders", "-o", "yaml")
    assert shop("get", "triggers", "-o", "name") == "trigger.eventing.knative.dev/orders\n"
    assert shop.field("trigger/orders", ".spec.filter.attributes.type") == "order"
    assert shop("get", "triggers", "-o", "jsonpath={.items[*].metadata.name}") == "orders"
    assert shop("get", "trigger/orders", "-o", "go-template={{.spec.broker}}") == "shop"
    columns = shop("get", "triggers", "-o", "custom-columns=N:.metadata.name,B:.spec.broker")
    assert [line.split() for line in columns.splitlines()] == [["N", "B"], ["orders", "shop"]]
    assert "orders" in shop("get", "triggers", "-o", "wide", "--sort-by=.metadata.name")
    assert shop("get", "triggers", "--no-headers", "--show-labels").split()[-1] == (
        "eventing.knative.dev/broker=shop,team=red"
    )


def test_selectors_and_all_namespaces_choose(shop):
    """Labels, fields, and every namespace with a column for it."""
    shop.apply(LATE)
    names = ("get", "triggers", "-o", "name")
    late, orders = (f"trigger.eventing.knative.dev/{name}" for name in ("late", "orders"))
    assert shop(*names).split() == [late, orders]
    assert shop(*names, "-l", "team=red").split() == [orders]
    assert shop(*names, "-l", "team!=red").split() == [late]
    assert shop(*names, "-l", "eventing.knative.dev/broker in (shop, x),!team").split() == [late]
    assert shop(*names, "--field-selector", "metadata.name=orders").split() == [orders]
    assert shop(*names, "--chunk-size=1").split() == [late, orders]
    table = shop("get", "triggers", "--all-namespaces")
    assert _header(table)[:2] == ["NAMESPACE", "NAME"]
    assert [row[1] for row in _cells(table) if row[0] == shop.namespace] == ["late", "orders"]
    assert "not a known field selector" in shop.refused(
        *names, "--field-selector", "spec.broker=shop"
    )


def test_a_watch_shows_each_change(shop):
    """A new object, its way to Ready, and its end."""
    lines: list[list[str]] = []
    watch = shop.begin("get", "triggers", "--watch", "--output-watch-events")
    reader = threading.Thread(target=lambda: lines.extend(each.split() for each in watch.stdout))
    reader.start()
    try:
        wait_until(lambda: len(lines) == 2, SEEN_S_MAX, "what stands is shown")
        shop.apply(LATE)
        shop.ready("trigger/late")
        shop("delete", "trigger/late")
        wait_until(lambda: lines[-1][0] == "DELETED", SEEN_S_MAX, "the end is shown")
    finally:
        watch.terminate()
        reader.join()
        watch.wait()
        watch.stdout.close()
    assert lines[0][:2] == ["EVENT", "NAME"]
    assert lines[1][:2] == ["ADDED", "orders"]
    late = [line for line in lines if line[1] == "late"]
    assert late[0][0] == "ADDED"
    assert any(line[0] == "MODIFIED" and line[-1] == "True" for line in late)
    assert late[-1][0] == "DELETED"


def test_waits_end_when_what_they_wait_for_is_so(shop):
    """A condition, a deletion, and a wait in vain."""
    shop.apply(LATE)
    assert "condition met" in shop("wait", "--for=condition=Ready", "trigger/late")
    words = ("wait", "--for=delete", "trigger/late", "--timeout=60s", "-v=6")  # tells requests
    with shop.begin(*words, stderr=subprocess.PIPE) as wait:
        # It must have seen the object: kubectl 1.20 fails where there is none.
        assert any("watch=true" in line for line in wait.stderr)
        shop("delete", "trigger/late")
        assert wait.wait(SEEN_S_MAX) == 0
    vain = shop.refused("wait", "--for=condition=Ready=False", "trigger/orders", "--timeout=1s")
    assert "timed out" in vain


def test_describe_shows_the_object_with_its_events(kubectl):
    """A Trigger whose deliveries fail: the condition and a Kubernetes event tell so."""
    nowhere = "http://127.0.0.1:1/late"
    kubectl.apply("apiVersion: eventing.knative.dev/v1\nkind: Broker\nmetadata: {name: shop}\n")
    kubectl.apply(LATE)
    kubectl.ready("trigger/late")
    kubectl.api.publish(f"/brokers/{kubectl.namespace}/shop")

    def told() -> bool:
        return "DeliveryFailed" in kubectl("get", "events")

    wait_until(told, SEEN_S_MAX, "an event of the failing deliveries", 0.5)
    shown = kubectl("describe", "trigger", "late")
    assert "Subscriber Uri" in shown
    _, _, events = shown.partition("\nEvents:")
    assert "Warning" in events
    assert "DeliveryFailed" in events
    assert nowhere in events
    assert kubectl.field("trigger/late", '.status.conditions[?(@.type=="Ready")].status') == "True"
    for name in ("broker/shop", f"namespace/{kubectl.namespace}"):
        assert name.split("/")[1] in kubectl("describe", name)


def test_describe_knows_services_and_config_maps(shop):
    """These are shown by kubectl's own code."""
    assert "TargetPort:" in shop("describe", "service", "books")
    assert "size:" in shop("describe", "configmap", "tuning")


def test_explain_knows_every_field(kubectl):
    """With `--recursive` all fields of all kinds are listed; each has a description."""
    described = json.loads(kubectl("get", "--raw", "/openapi/v2"))["definitions"]
    bare = [
        f"{name}.{field}"
        for name, schema in described.items()
        for field, member in schema.get("properties", {}).items()
        if not member.get("description")
    ]
    assert bare == []
    assert [name for name, schema in described.items() if not schema.get("description")] == []
    for kind in KINDS:
        listed = kubectl("explain", kind.plural, "--recursive")
        assert kind.kind in listed
        assert "resourceVersion" in listed
    everything = kubectl("explain", "trigger", "--recursive")
    for field in ("deadLetterSink", "backoffPolicy", "attributes", "cesql", "subscriberUri"):
        assert field in everything
    assert "must have" in kubectl("explain", "trigger.spec.filter.attributes")
    assert "does not exist" in kubectl.refused("explain", "trigger.spec.filtr")


def test_the_definitions_of_the_kinds_are_there(kubectl):
    """Scripts look for them, and wait until they are established, before they apply anything."""
    listed = kubectl("get", "crd", "-o", "name").split()
    assert [name.partition("/")[2] for name in listed] == [
        "apisubscriptions.subscriptions.distributary.dev",
        "brokers.eventing.knative.dev",
        "channels.messaging.knative.dev",
        "eventpolicies.eventing.knative.dev",
        "subscriptions.messaging.knative.dev",
        "triggers.eventing.knative.dev",
    ]
    kubectl("wait", "--for=condition=established", "crd/triggers.eventing.knative.dev")
    assert "CREATED AT" in kubectl("get", "crd")


def test_the_class_of_a_broker_is_in_the_wide_table(kubectl):
    """As in Knative's own."""
    kubectl.api.broker("shop")
    assert "CLASS" not in kubectl("get", "brokers")
    heads, row = kubectl("get", "broker", "shop", "-o", "wide").splitlines()
    assert (heads.split()[-1], row.split()[-1]) == ("CLASS", "Distributary")


def test_discovery_names_kinds_groups_and_versions(kubectl):
    """What completion and every other command begin with."""
    lines = [line.split() for line in kubectl("api-resources", "--no-headers").splitlines()]
    assert {(line[0], line[-1], line[-2]) for line in lines} == {
        (kind.plural, kind.kind, str(kind.namespaced).lower())
        for kind in (*KINDS, API_SUBSCRIPTION, DEFINITION)
    }
    assert kubectl("api-versions").split() == [
        "apiextensions.k8s.io/v1",
        "eventing.knative.dev/v1",
        "eventing.knative.dev/v1alpha1",
        "messaging.knative.dev/v1",
        "subscriptions.distributary.dev/v1",
        "v1",
    ]
    assert "distributary" in json.dumps(
        json.loads(kubectl("version", "-o", "json"))["serverVersion"]
    )
    assert kubectl.api.server.url in kubectl("cluster-info")
    assert kubectl("auth", "can-i", "create", "triggers") == "yes\n"
    raw = json.loads(kubectl("get", "--raw", "/apis/eventing.knative.dev/v1"))
    assert raw["kind"] == "APIResourceList"
    assert "doesn't have a resource type" in kubectl.refused("get", "pods")


def test_subscriptions_of_the_api_are_read(kubectl):
    """Listed with how they stand, described, explained; a write is told where to go."""
    place = f"/namespaces/{kubectl.namespace}/subscriptions"
    spec = {"sink": "http://127.0.0.1:1/orders?token=canary", "protocol": "HTTP"}
    for id_ in ("orders", "Orders_EU"):
        assert kubectl.api.send("PUT", f"{place}/{id_}", spec).status in (200, 201)
    try:
        table = kubectl("get", "apisubscriptions")
        assert _header(table) == ["NAME", "SINK", "STATE", "FAILING", "WAITING", "AGE"]
        other, orders = _cells(table)
        assert orders[:4] == ["orders", "http://127.0.0.1:1/orders", "ready", "0"]
        ids = "jsonpath={.items[*].spec.id}"
        assert kubectl("get", "apisub", "-o", ids) == "Orders_EU orders"
        assert kubectl("get", "apisub", "--chunk-size=1", "-o", "name").split() == [
            f"apisubscription.subscriptions.distributary.dev/{name}"
            for name in (other[0], "orders")
        ]
        described = kubectl("describe", "apisubscription", other[0])
        assert "subscriptions.distributary.dev/id: Orders_EU" in described
        assert "Conditions:" in described
        assert "canary" not in described
        assert kubectl("explain", "apisubscription").count("Subscriptions API") >= 1
        assert kubectl("auth", "can-i", "list", "apisubscriptions") == "yes\n"
        assert "PUT /subscriptions/{id}" in kubectl.refused("delete", "apisubscription", "orders")
    finally:
        for id_ in ("orders", "Orders_EU"):
            kubectl.api.send("DELETE", f"{place}/{id_}")
