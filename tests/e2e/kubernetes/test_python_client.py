"""The Python package ``kubernetes``, as it is, against this server."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config, dynamic, watch
from kubernetes.client import ApiException

from distributary.knative.kinds import TRIGGER as TRIGGERS
from kit.running_server import clean_environ

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EVENTING = ("eventing.knative.dev", "v1")
WATCH_S_MAX = 60

SERVICE = {
    "metadata": {"name": "books", "annotations": {"distributary.dev/address": "127.0.0.1:1"}},
    "spec": {"ports": [{"port": 80}]},
}
BROKER = {
    "apiVersion": "eventing.knative.dev/v1",
    "kind": "Broker",
    "metadata": {"name": "shop", "labels": {"team": "red"}},
}
TRIGGER = {
    "apiVersion": "eventing.knative.dev/v1",
    "kind": "Trigger",
    "metadata": {"name": "orders"},
    "spec": {
        "broker": "shop",
        "filter": {"attributes": {"type": "order"}},
        "subscriber": {"ref": {"apiVersion": "v1", "kind": "Service", "name": "books"}},
    },
}


@pytest.fixture
def session(kubeconfig: Path) -> Iterator[client.ApiClient]:
    """A client of the kubeconfig that ``distributary kubeconfig`` printed."""
    with config.new_client_from_config(str(kubeconfig)) as session:
        yield session


@pytest.fixture
def custom(session) -> client.CustomObjectsApi:
    """What people use for Knative's kinds."""
    return client.CustomObjectsApi(session)


def _ready(obj) -> bool:
    conditions = obj.get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def test_custom_objects_live_from_create_to_delete(custom, session, api):
    """Created, watched until Ready, patched in each way, replaced, listed, deleted."""
    place = (*EVENTING, api.namespace)
    client.CoreV1Api(session).create_namespaced_service(api.namespace, SERVICE)
    custom.create_namespaced_custom_object(*place, "brokers", BROKER)
    made = custom.create_namespaced_custom_object(*place, "triggers", TRIGGER)
    since = made["metadata"]["resourceVersion"]
    watcher = watch.Watch()
    became_ready = False
    for event in watcher.stream(
        *(custom.list_namespaced_custom_object, *place, "triggers"),
        resource_version=since,
        timeout_seconds=WATCH_S_MAX,
    ):
        if _ready(event["object"]):
            became_ready = True
            watcher.stop()
    assert became_ready
    seen = custom.get_namespaced_custom_object_status(*place, "triggers", "orders")
    assert seen["status"]["subscriberUri"] == f"http://books.{api.namespace}.svc/"

    merge = {"spec": {"filter": {"attributes": {"type": "refund"}}}}
    patched = custom.patch_namespaced_custom_object(
        *(*place, "triggers", "orders", merge), _content_type="application/merge-patch+json"
    )
    assert patched["metadata"]["generation"] == 2
    operations = [{"op": "remove", "path": "/spec/filter"}]
    patched = custom.patch_namespaced_custom_object(
        *(*place, "triggers", "orders", operations), _content_type="application/json-patch+json"
    )
    assert patched["spec"]["filter"] == {}
    newest = api.ready(TRIGGERS, "orders")  # the server has written the status of the patch
    newest["metadata"]["labels"]["team"] = "blue"
    custom.replace_namespaced_custom_object(*place, "triggers", "orders", newest)
    with pytest.raises(ApiException) as refused:
        custom.replace_namespaced_custom_object(*place, "triggers", "orders", newest)
    assert refused.value.status == 409

    listed = custom.list_namespaced_custom_object(*place, "triggers", label_selector="team=blue")
    assert [each["metadata"]["name"] for each in listed["items"]] == ["orders"]
    everywhere = custom.list_cluster_custom_object(*EVENTING, "brokers", limit=1)
    assert everywhere["kind"] == "BrokerList"
    gone = custom.delete_namespaced_custom_object(*place, "triggers", "orders")
    assert gone["status"] == "Success"
    with pytest.raises(ApiException) as missing:
        custom.get_namespaced_custom_object(*place, "triggers", "orders")
    assert missing.value.status == 404


def test_faults_come_as_a_status(custom, api):
    """The exception holds every field."""
    bad = {**TRIGGER, "spec": {"subscriber": {}}}
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*EVENTING, api.namespace, "triggers", bad)
    assert refused.value.status == 422
    assert "spec.broker" in refused.value.body
    assert "spec.subscriber" in refused.value.body


def test_the_core_kinds_have_their_own_classes(session, api):
    """Services, config maps, namespaces and events become the package's objects."""
    core = client.CoreV1Api(session)
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=api.namespace)))
    assert api.namespace in [each.metadata.name for each in core.list_namespace().items]
    service = core.create_namespaced_service(api.namespace, SERVICE)
    assert service.spec.ports[0].target_port == 80
    ports = {"spec": {"ports": [{"port": 80, "name": "web"}, {"port": 81, "name": "more"}]}}
    patched = core.patch_namespaced_service("books", api.namespace, ports)
    assert {port.port: port.name for port in patched.spec.ports} == {80: "web", 81: "more"}
    assert patched.metadata.annotations == SERVICE["metadata"]["annotations"]
    metadata = client.V1ObjectMeta(name="tuning")
    made = client.V1ConfigMap(metadata=metadata, data={"size": "1"})
    assert core.create_namespaced_config_map(api.namespace, made).data == {"size": "1"}
    made.data["size"] = "2"
    assert core.replace_namespaced_config_map("tuning", api.namespace, made).data["size"] == "2"
    assert core.list_namespaced_event(api.namespace).items == []
    core.delete_namespaced_config_map("tuning", api.namespace)
    assert core.list_namespaced_config_map(api.namespace).items == []
    core.delete_namespace(api.namespace)


def test_the_dynamic_client_finds_the_kinds_by_itself(session, api):
    """By discovery; server-side apply and watches work."""
    found = dynamic.DynamicClient(session)
    brokers = found.resources.get(api_version="eventing.knative.dev/v1", kind="Broker")
    made = brokers.create(body=BROKER, namespace=api.namespace)
    assert made.metadata.generation == 1
    labels = {"metadata": {"labels": {"team": "blue"}}}
    content_type = "application/merge-patch+json"
    patched = brokers.patch(
        body=labels, name="shop", namespace=api.namespace, content_type=content_type
    )
    assert patched.metadata.labels.team == "blue"
    applied = brokers.server_side_apply(
        body={**BROKER, "spec": {"delivery": {"retry": 3}}},
        name="shop",
        namespace=api.namespace,
        field_manager="ours",
        force_conflicts=True,
    )
    assert (applied.spec.delivery.retry, applied.metadata.labels.team) == (3, "red")
    seen: list[str] = []
    watcher = watch.Watch()

    def look() -> None:
        version = applied.metadata.resourceVersion
        place = {"namespace": api.namespace, "resource_version": version}
        for event in brokers.watch(**place, timeout=WATCH_S_MAX, watcher=watcher):
            seen.append(event["type"])
            if event["type"] == "DELETED":
                watcher.stop()

    looking = threading.Thread(target=look)
    looking.start()
    brokers.delete(name="shop", namespace=api.namespace)
    looking.join(2 * WATCH_S_MAX)
    assert seen[-1] == "DELETED"
    assert brokers.get(namespace=api.namespace).items == []


@pytest.mark.parametrize("kubectl", ["debian"], indirect=True)  # others may read it twice
def test_a_kubeconfig_can_be_piped(kubectl, server):
    """`distributary kubeconfig | kubectl --kubeconfig /dev/stdin`."""
    command = [sys.executable, "-m", "distributary.cli", "kubeconfig", "--server", server.url]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, env=clean_environ()
    ).stdout
    piped = kubectl("--kubeconfig", "/dev/stdin", "get", "namespace", "default", text=printed)
    assert "Active" in piped
