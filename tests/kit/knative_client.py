"""A client of the Kubernetes-shaped API and of the addresses of Brokers and Channels.

Callers: tests of a whole server. Uses plain JSON over HTTP, like ``kubectl get --raw``, in one
namespace. Hides: paths of kinds, waiting for conditions, the encoding of events.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from distributary.core.errors import DistributaryError
from distributary.core.event import Event, json_format
from distributary.knative.apiserver.machinery import Kind, Object
from distributary.knative.kinds import BROKER, CHANNEL, SUBSCRIPTION, TRIGGER
from distributary.protocols.http import binding as event_http
from kit.running_server import Answer, RunningServer, ServerError, wait_until

__all__ = ["KnativeClient", "condition", "event_attributes", "reference"]

READY_S_MAX = 60.0
"""Longest wait for a status: longer means that it never comes."""

LOOK_S = 0.005
"""Pause between two looks at an object."""

MERGE_PATCH = "application/merge-patch+json"

_ids = itertools.count(1)


def condition(obj: Object, name: str) -> Object:
    """The condition *name* of an object; empty: it has none."""
    conditions: list[Object] = obj.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == name), {})


class KnativeClient:
    """A client for the objects of one namespace, and for publishing to its addresses.

    Args:
        server: The server.
        namespace: Created with the first object.
    """

    def __init__(self, server: RunningServer, namespace: str) -> None:
        self.server = server
        self.namespace = namespace

    # -- objects --------------------------------------------------------------------------------

    def path(self, kind: Kind, name: str = "", subresource: str = "") -> str:
        """Path of a kind's objects here, or of one."""
        group = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        place = f"/namespaces/{self.namespace}" if kind.namespaced else ""
        parts = (group + place, kind.plural, name, subresource)
        return "/".join(part for part in parts if part)

    def send(
        self,
        method: str,
        path: str,
        value: object = None,
        content_type: str = "application/json",
    ) -> Answer:
        """One request with *value* as JSON; None: without a body."""
        if value is None:
            return self.server.request(method, path)
        body = msgspec.json.encode(value)
        return self.server.request(method, path, body, {"content-type": content_type})

    def propose(self, kind: Kind, name: str, spec: object = None, **metadata: Any) -> Answer:
        """POST an object; *metadata* are more members of its metadata."""
        members = {} if spec is None else {"spec": spec}
        return self.propose_whole(kind, {"metadata": {"name": name, **metadata}, **members})

    def propose_whole(self, kind: Kind, members: Object) -> Answer:
        """POST an object with these members."""
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, **members}
        return self.send("POST", self.path(kind), obj)

    def create(self, kind: Kind, name: str, spec: object = None, **metadata: Any) -> Object:
        """POST an object that is taken; the object as answered."""
        answer = self.propose(kind, name, spec, **metadata)
        assert answer.status == 201, answer.body
        created: Object = answer.json()
        return created

    def read(self, kind: Kind, name: str) -> Object:
        """The object."""
        answer = self.send("GET", self.path(kind, name))
        assert answer.status == 200, answer.body
        obj: Object = answer.json()
        return obj

    def patch(self, kind: Kind, name: str, **spec: Any) -> Object:
        """Merge *spec* into the object's; the object as answered."""
        answer = self.merge(kind, name, {"spec": spec})
        assert answer.status == 200, answer.body
        patched: Object = answer.json()
        return patched

    def merge(self, kind: Kind, name: str, patch: Object) -> Answer:
        """PATCH the object (RFC 7386)."""
        return self.send("PATCH", self.path(kind, name), patch, MERGE_PATCH)

    def delete(self, kind: Kind, name: str) -> None:
        """DELETE the object; what it did for events has ended when this returns."""
        answer = self.send("DELETE", self.path(kind, name))
        assert answer.status == 200, answer.body

    def wait(self, kind: Kind, name: str, holds: Callable[[Object], bool]) -> Object:
        """Wait until the object is as *holds* says; the object.

        Raises:
            ServerError: It does not come to that; the message holds the object.
        """
        seen: list[Object] = [{}]

        def look() -> bool:
            seen[0] = self.read(kind, name)
            return holds(seen[0])

        try:
            wait_until(look, READY_S_MAX, "", LOOK_S)
        except DistributaryError as error:
            raise ServerError(f"{error}{kind.kind} {name} stays {seen[0]}") from None
        return seen[0]

    def wait_condition(self, kind: Kind, name: str, status: str, type_: str = "Ready") -> Object:
        """Wait until a condition has *status*, seen in the newest generation; the object."""

        def holds(obj: Object) -> bool:
            seen = obj.get("status", {}).get("observedGeneration")
            found = condition(obj, type_).get("status")
            return seen == obj["metadata"]["generation"] and found == status

        return self.wait(kind, name, holds)

    def history(self, kind: Kind, since: Object) -> list[Object]:
        """Every version of an object after the one *since*, as a watcher sees them; takes 1 s."""
        name, version = (since["metadata"][member] for member in ("name", "resourceVersion"))
        query = f"watch=true&resourceVersion={version}&timeoutSeconds=1"
        query += f"&fieldSelector=metadata.name%3D{name}"
        answer = self.send("GET", f"{self.path(kind)}?{query}")
        assert answer.status == 200, answer.body
        changes = [msgspec.json.decode(line) for line in answer.body.splitlines()]
        assert all(change["type"] != "ERROR" for change in changes), changes
        return [change["object"] for change in changes]

    def ready(self, kind: Kind, name: str) -> Object:
        """Wait until it is Ready; the object."""
        return self.wait_condition(kind, name, "True")

    def faulty_fields(self, answer: Answer) -> list[str]:
        """Fields that a refused request names, all of them."""
        status = answer.json()
        assert (answer.status, status["kind"], status["reason"]) == (422, "Status", "Invalid"), (
            answer.body
        )
        return [cause["field"] for cause in status["details"]["causes"]]

    # -- what most tests need -------------------------------------------------------------------

    def broker(self, name: str = "b", **spec: Any) -> str:
        """A Broker that is Ready; the path of its address."""
        self.create(BROKER, name, spec)
        return self.address(BROKER, name)

    def channel(self, name: str = "c", **spec: Any) -> str:
        """A Channel that is Ready; the path of its address."""
        self.create(CHANNEL, name, spec)
        return self.address(CHANNEL, name)

    def trigger(self, subscriber: str, name: str = "t", broker: str = "b", **spec: Any) -> Object:
        """A Trigger that is Ready, whose *subscriber* is a URI."""
        self.create(TRIGGER, name, {"broker": broker, "subscriber": {"uri": subscriber}, **spec})
        return self.ready(TRIGGER, name)

    def subscription(
        self, subscriber: str | None, name: str = "s", channel: str = "c", **spec: Any
    ) -> Object:
        """A Subscription that is Ready, whose *subscriber* is a URI; None: it has none."""
        members: Object = {"channel": reference(CHANNEL, channel), **spec}
        if subscriber is not None:
            members["subscriber"] = {"uri": subscriber}
        self.create(SUBSCRIPTION, name, members)
        return self.ready(SUBSCRIPTION, name)

    def address(self, kind: Kind, name: str) -> str:
        """The path of the address of a Broker or Channel; waits until it is Ready."""
        url: str = self.ready(kind, name)["status"]["address"]["url"]
        return urlsplit(url).path

    # -- events ---------------------------------------------------------------------------------

    def post(self, path: str, attributes: Mapping[str, Any], body: bytes = b"") -> Answer:
        """POST one event in binary mode."""
        fields, content = event_http.encode_binary(Event(dict(attributes), body))
        pairs = (line.split(": ", 1) for line in fields.decode().splitlines())
        return self.server.request("POST", path, content, dict(pairs))

    def publish(self, path: str, body: bytes = b"", **attributes: Any) -> str:
        """POST an event that is taken; its id, which is new where none is given."""
        event = event_attributes(**attributes)
        answer = self.post(path, event, body)
        assert answer.status == 202, answer.body
        return str(event["id"])

    def publish_batch(self, path: str, events: Iterable[Mapping[str, Any]]) -> list[str]:
        """POST events in one batch, which keeps their order; their ids."""
        batch = [Event(event_attributes(**attributes), b"") for attributes in events]
        fields = {"content-type": "application/cloudevents-batch+json"}
        answer = self.server.request("POST", path, json_format.encode_batch(batch), fields)
        assert answer.status == 202, answer.body
        return [str(event.attributes["id"]) for event in batch]


def reference(kind: Kind, name: str, **members: str) -> Object:
    """A ``KReference`` to an object of this kind."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, **members}


def event_attributes(**attributes: Any) -> dict[str, Any]:
    """Attributes of a valid event with a new id, where *attributes* do not say otherwise."""
    required = {"specversion": "1.0", "id": f"e{next(_ids)}", "source": "/s", "type": "t"}
    return required | attributes
