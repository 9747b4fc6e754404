"""Objects for the benchmarks of Knative Eventing, and a client that keeps its connection."""

import http.client
import json
import time
from urllib.parse import urlsplit

NAMESPACE = "bench"
TRIGGERS = f"/apis/eventing.knative.dev/v1/namespaces/{NAMESPACE}/triggers"
BROKERS = f"/apis/eventing.knative.dev/v1/namespaces/{NAMESPACE}/brokers"
MERGE = "application/merge-patch+json"
READY_S_MAX = 60.0


class Api:
    """One kept connection to the API; a context manager."""

    def __init__(self, port):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S_MAX)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self._connection.close()

    def ask(self, method, path, value=None, content_type="application/json"):
        """The answer as an object; every refusal is a failure of the benchmark."""
        body = None if value is None else json.dumps(value)
        self._connection.request(method, path, body, {"content-type": content_type})
        answer = self._connection.getresponse()
        found = answer.read()
        assert answer.status in {200, 201}, (method, path, found)
        return json.loads(found)

    def broker(self, name):
        """Create a Broker and wait until it is ready; the path of its address."""
        self.ask("POST", BROKERS, of_kind("Broker", name, {}))
        path = f"{BROKERS}/{name}"
        wait(lambda: is_ready(self.ask("GET", path)), f"Broker {name} is ready")
        return urlsplit(self.ask("GET", path)["status"]["address"]["url"]).path

    def triggers(self, triggers):
        """Create Triggers and wait until all are ready."""
        for trigger in triggers:
            self.ask("POST", TRIGGERS, trigger)
        self.wait_ready()

    def wait_ready(self):
        """Wait until every Trigger is ready."""
        wait(
            lambda: all(is_ready(each) for each in self.ask("GET", TRIGGERS)["items"]),
            "every Trigger is ready",
        )


def of_kind(kind, name, spec):
    """An object of a kind of ``eventing.knative.dev``."""
    metadata = {"name": name, "namespace": NAMESPACE}
    head = {"apiVersion": "eventing.knative.dev/v1", "kind": kind}
    return {**head, "metadata": metadata, "spec": spec}


def trigger(name, broker, event_type, subscriber):
    """A Trigger for one type of events."""
    chosen = {"attributes": {"type": event_type}}
    spec = {"broker": broker, "filter": chosen, "subscriber": {"uri": subscriber}}
    return of_kind("Trigger", name, spec)


def is_ready(found):
    """Whether an object says that it is Ready."""
    conditions = found.get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def wait(holds, what):
    """Wait until *holds*."""
    end_s = time.monotonic() + READY_S_MAX
    while not holds():
        assert time.monotonic() < end_s, f"waited in vain: {what}"
        time.sleep(0.02)
